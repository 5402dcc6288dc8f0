"""A disk that remembers what SQLite wrote to it, and what a loss of power would leave of that.

Between two syncs of a file its writes may reach the disk in any order, in part, or not at all; so
may the making and deleting of files until their directory is synced. A crash takes the worst of it:
a random part of all that was not synced, in random order, torn at sectors.
"""

SECTOR = 512


class Log:
    """Everything that was asked of the disk, in order; and marks of the test in between."""

    def __init__(self):
        self.events = []

    def mark(self, what):
        self.events.append(("mark", "", what))


class _File:
    """A file on the disk: what is safe, and what is not yet."""

    def __init__(self):
        self.safe = bytearray()
        self.named = False
        self.deleted = False
        self.before = None
        """What had its name, and may have it still."""
        self.pending = []

    def settle(self):
        for event in self.pending:
            apply(self.safe, event)
        self.pending = []

    def crashed(self, rng):
        """What is left of it; None if it is not there."""
        if (self.deleted or not self.named) and rng.random() < 0.5:
            return None if self.before is None else self.before.crashed(rng)
        left, how = bytearray(self.safe), rng.choice(("none", "all", "some", "some"))
        events = [] if how == "none" else list(self.pending)
        if how == "some":
            events = [torn(one, rng) for one in events if rng.random() < 0.6]
            rng.shuffle(events)
        for event in events:
            apply(left, event)
        return bytes(left)


def apply(content, event):
    kind, _, *what = event
    if kind == "truncate":
        del content[what[0] :]
        return
    data, offset = what
    content.extend(bytes(max(offset + len(data) - len(content), 0)))
    content[offset : offset + len(data)] = data


def torn(event, rng):
    if event[0] != "write" or len(event[2]) <= SECTOR or rng.random() < 0.5:
        return event
    kept = SECTOR * rng.randrange(len(event[2]) // SECTOR + 1)
    return event[0], event[1], event[2][:kept], event[3]


def synced(files):
    """After a sync of their directory."""
    for name, file in tuple(files.items()):
        file.named, file.before = True, None
        if file.deleted:
            del files[name]


def crashes(log, rng, each):
    """After every event: the marks so far, and some of what may be on the disk then."""
    files = {}
    marks = []
    for event in log.events:
        kind, name = event[:2]
        if kind == "mark":
            marks.append(event[2])
        elif kind == "sync":
            files[name].settle()
            # SQLite syncs the directory of a journal, or log, that it has made.
            if not files[name].named and not name.endswith(".db"):
                synced(files)
        elif kind == "folder":
            synced(files)
        elif kind == "delete":
            files[name].deleted = True
            if event[2]:
                synced(files)
        elif kind == "open":
            known = files.get(name)
            if known is None or known.deleted:
                files[name] = _File()
                files[name].before = known
        else:
            files[name].pending.append(event)
        for _ in range(each):
            left = {name: file.crashed(rng) for name, file in files.items()}
            yield marks, {name: content for name, content in left.items() if content is not None}


def recording(apsw, log, name):
    """A file system for SQLite that passes everything on, and remembers what changes something."""

    class File(apsw.VFSFile):
        def __init__(self, path, flags):
            self.path = path if isinstance(path, str) else path.filename()
            log.events.append(("open", self.path))
            super().__init__("", path, flags)

        def xWrite(self, data, offset):
            log.events.append(("write", self.path, bytes(data), offset))
            super().xWrite(data, offset)

        def xTruncate(self, size):
            log.events.append(("truncate", self.path, size))
            super().xTruncate(size)

        def xSync(self, flags):
            log.events.append(("sync", self.path))
            super().xSync(flags)

    class System(apsw.VFS):
        def __init__(self):
            super().__init__(name, "")

        def xOpen(self, path, flags):
            return File(path, flags)

        def xDelete(self, path, sync):
            log.events.append(("delete", path, sync))
            super().xDelete(path, sync)

    return System()


class Connection:
    """A connection of apsw, as the ledger uses one of the standard library."""

    def __init__(self, apsw, path, mode, vfs, *, exclusive):
        flags = apsw.SQLITE_OPEN_READWRITE
        if mode == "rwc":
            flags |= apsw.SQLITE_OPEN_CREATE
        self._own = apsw.Connection(str(path), flags=flags, vfs=vfs)
        if exclusive:  # since the log would need memory that files of apsw do not share
            self._own.execute("PRAGMA locking_mode = EXCLUSIVE")

    def execute(self, statement, values=()):
        return self._own.execute(statement, tuple(values))

    @property
    def in_transaction(self):
        return self._own.in_transaction

    def rollback(self):
        if self._own.in_transaction:
            self._own.execute("ROLLBACK")

    def close(self):
        self._own.close()
