import json, os, re, signal, subprocess, sys, tempfile

requests, events = os.fdopen(int(sys.argv[1]), "r"), os.fdopen(int(sys.argv[2]), "w", buffering=1)
# Cells are files that one shell reads in turn, so that what one sets the next one has. What they start has
# no part in this conversation.
DRIVER = 'while IFS= read -r _berth <&{0}; do . "$_berth" {0}<&- {1}>&-; printf "%d\\n" "$?" >&{1}; done'
NAME = re.compile("[A-Za-z_][A-Za-z0-9_]*")
shell = None


def tell(**event):
    events.write(json.dumps(event) + "\n")


class Shell:
    def __init__(self):
        their_in, own_out = os.pipe()
        own_in, their_out = os.pipe()
        self.process = subprocess.Popen(["bash", "-c", DRIVER.format(their_in, their_out)], stdin=subprocess.DEVNULL,
                                        pass_fds=(their_in, their_out),
                                        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        os.close(their_in)
        os.close(their_out)
        self.cells, self.statuses = os.fdopen(own_out, "w", buffering=1), os.fdopen(own_in, "r")

    def run(self, text):
        """Its status, and whether the shell is still there."""
        with tempfile.NamedTemporaryFile("w", prefix=".berth-cell-") as cell:
            cell.write(text)
            cell.flush()
            try:
                self.cells.write(cell.name + "\n")
                told = self.statuses.readline()
            except OSError:
                told = ""
        if told:
            return int(told), True
        return self.process.wait(), False


def quoted(text):
    return "'" + text.replace("'", "'\\''") + "'"


def execute(code, env):
    global shell
    if shell is None:
        shell = Shell()
    names = [name for name in env if NAME.fullmatch(name)]
    for name in names:
        shell.run("_berth_had_%s=${%s+x} _berth_%s=${%s-}; export %s=%s\n" % (name, name, name, name, name, quoted(env[name])))
    status, there = shell.run(code + "\n")
    if not there:
        shell = None
    for name in names if there else ():
        shell.run('if [ "$_berth_had_%s" ]; then export %s="$_berth_%s"; else unset %s; fi; unset _berth_%s _berth_had_%s\n'
                  % ((name,) * 6))
    if status != 0:
        tell(type="error", name="", value=str(status), traceback="")


def interrupt(*_):
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.killpg(0, signal.SIGINT)
    signal.signal(signal.SIGINT, interrupt)


count = 0
signal.signal(signal.SIGINT, interrupt)
for line in requests:
    request = json.loads(line)
    count += 1
    tell(type="number_of_executions", execution_count=count)
    execute(request["code"], request["env"])
    for number in (1, 2):
        os.write(number, request["end"].encode())
    tell(type="end")
