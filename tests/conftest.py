"""Puts the helpers beside this file, such as `worlds`, within reach of every test."""
