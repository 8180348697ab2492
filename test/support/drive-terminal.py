"""Runs a command on a terminal of its own and drives it as a person would.

argv: the command. stdin: one JSON list of steps:
  {"expect": regex}          waits for bytes, after those of the step before
  {"see": regex}             waits for text on the screen as a person sees it, with what has scrolled away above it
  {"send": text}             all at once, as a paste is
  {"type": text}             key by key, since programs that draw take what comes at once for a paste
  {"quiet": seconds}         waits until nothing has been drawn for that long
  {"resize": [cols, rows]}
  {"close": true}            closes the terminal as a window is closed, and waits for the command to end
`expect` and `see` wait 20 s unless "within" says how many. One that waits longer ends it with "stuck", as does a command that has not
ended 90 s after the last step.
Prints as JSON {"code": exit code, "stuck": regex or null, "screen": everything that was written, "shown": the screen at the end,
"isOrdinary": whether the terminal was left as it was found}. What programs ask a terminal about itself is answered as a plain one does.
"""
import fcntl, json, os, pty, re, select, signal, struct, sys, termios, time, unicodedata

PATIENCE_S = 20
LEAVING_S = 90
KEY_S = 0.02
CURSOR = 25
MOST_SCROLLED = 5000
CONTROL = re.compile(
    rb"\x1b\[([<=>?]?)([0-9;:]*)([ -/]*)([@-~])"  # CSI
    rb"|\x1b([\]PX^_])(.*?)(?:\x07|\x1b\\)"  # OSC, DCS and the other strings
    rb"|\x1b([ -/]*)([0-~])",  # the rest
    re.S,
)


class Screen:
    """As much of a terminal as is needed to know what a person would read."""

    def __init__(self, cols, rows):
        self.cols, self.rows = cols, rows
        self.scrolled, self.modes, self.keyboards, self.has_other_keys = [], {CURSOR}, 0, False
        self.saved, self.main = (0, 0), None
        self.rest = b""
        self.clear()

    def clear(self):
        self.lines = [self.blank() for _ in range(self.rows)]
        self.row = self.col = self.top = 0
        self.bottom = self.rows - 1

    def blank(self):
        return [" "] * self.cols

    def resize(self, cols, rows):
        self.cols, self.rows = cols, rows
        kept = [(line + [" "] * cols)[:cols] for line in self.lines]
        self.lines = ([*kept, *(self.blank() for _ in range(rows))])[:rows]
        self.top, self.bottom = 0, rows - 1
        self.move(self.row, self.col)

    def text(self):
        return "\n".join("".join(line).rstrip() for line in [*self.scrolled, *self.lines])

    def shown(self):
        return "\n".join("".join(line).rstrip() for line in self.lines)

    def feed(self, data):
        """Answers what the program is to be told."""
        data, self.rest = self.rest + data, b""
        answers, at = [], 0
        while at < len(data):
            escape = data.find(b"\x1b", at)
            plain = data[at : escape if escape >= 0 else len(data)]
            if escape < 0:
                # A character may have come in part.
                whole = len(plain)
                while whole > 0 and len(plain) - whole < 3 and plain[whole - 1] & 0xC0 == 0x80:
                    whole -= 1
                if whole > 0 and plain[whole - 1] >= 0xC0:
                    needed = 2 if plain[whole - 1] < 0xE0 else 3 if plain[whole - 1] < 0xF0 else 4
                    if len(plain) - whole + 1 < needed:
                        plain, self.rest = plain[: whole - 1], plain[whole - 1 :]
            self.write(plain.decode("utf-8", "replace"))
            if escape < 0:
                break
            found = CONTROL.match(data, escape)
            # A string that never ends would keep everything after it from the screen.
            if not found and len(data) - escape < 65536:
                self.rest = data[escape:]
                break
            at = found.end() if found else escape + 1
            if found:
                answers.append(self.control(found))
        return b"".join(answer for answer in answers if answer)

    def write(self, text):
        for char in text:
            if char == "\n" or char == "\x0b" or char == "\x0c":
                self.down()
            elif char == "\r":
                self.col = 0
            elif char == "\b":
                self.col = max(0, self.col - 1)
            elif char == "\t":
                self.col = min(self.cols - 1, self.col // 8 * 8 + 8)
            elif char >= " " and char != "\x7f" and not unicodedata.combining(char):
                self.put(char)

    def put(self, char):
        width = 2 if unicodedata.east_asian_width(char) in "WF" else 1
        if self.col + width > self.cols:
            self.col = 0
            self.down()
        self.lines[self.row][self.col] = char
        if width == 2:
            self.lines[self.row][self.col + 1] = ""
        self.col += width

    def down(self):
        if self.row == self.bottom:
            self.scroll(1)
        elif self.row < self.rows - 1:
            self.row += 1

    def scroll(self, count):
        for _ in range(min(abs(count), self.rows)):
            if count > 0:
                gone = self.lines.pop(self.top)
                self.lines.insert(self.bottom, self.blank())
                if self.top == 0 and self.main is None:
                    self.scrolled = [*self.scrolled[-MOST_SCROLLED:], gone]
            else:
                self.lines.pop(self.bottom)
                self.lines.insert(self.top, self.blank())

    def move(self, row, col):
        self.row = max(0, min(self.rows - 1, row))
        self.col = max(0, min(self.cols - 1, col))

    def erase(self, row, start, end):
        self.lines[row][start:end] = [" "] * len(self.lines[row][start:end])

    def control(self, found):
        mark, numbers, between, final, string, body, middle, single = found.groups()
        if final is not None:
            values = [int(one.split(b":")[0] or 0) for one in numbers.split(b";")] if numbers else []
            return self.sequence(mark, values, between, final.decode())
        if string == b"]":
            return self.asked(body)
        if string == b"P" and body.startswith(b"+q"):
            return b"\x1bP0+r\x1b\\"
        if single == b"7":
            self.saved = (self.row, self.col)
        elif single == b"8" and not middle:
            self.move(*self.saved)
        elif single == b"M":
            if self.row == self.top:
                self.scroll(-1)
            else:
                self.move(self.row - 1, self.col)
        elif single == b"D" or single == b"E":
            self.col = 0 if single == b"E" else self.col
            self.down()
        elif single == b"c":
            self.clear()
        return None

    def asked(self, body):
        """A light text on a dark ground."""
        number = body.split(b";")[0]
        if not body.endswith(b";?") or number not in (b"10", b"11", b"12"):
            return None
        colour = b"rgb:1e1e/1e1e/1e1e" if number == b"11" else b"rgb:d4d4/d4d4/d4d4"
        return b"\x1b]" + number + b";" + colour + b"\x1b\\"

    def sequence(self, mark, values, between, final):
        first = values[0] if values else 0
        count = max(1, first)
        if mark == b"?" and between == b"$" and final == "p":
            return b"\x1b[?%d;%d$y" % (first, 0)
        if between:
            return None
        if mark == b"?" and final in "hl":
            for mode in values:
                self.mode(mode, final == "h")
            return None
        if mark and final == "u":
            self.keyboards = max(0, self.keyboards + {b">": 1, b"<": -count}.get(mark, 0))
            return None
        if mark == b">" and final == "m" and first == 4:
            self.has_other_keys = len(values) > 1 and values[1] > 0
            return None
        if mark == b">" and final == "c":
            return b"\x1b[>0;276;0c"
        if mark:
            return None
        if final in "AF":
            self.move(self.row - count, 0 if final == "F" else self.col)
        elif final in "BEe":
            self.move(self.row + count, 0 if final == "E" else self.col)
        elif final in "Ca":
            self.move(self.row, self.col + count)
        elif final == "D":
            self.move(self.row, self.col - count)
        elif final in "G`":
            self.move(self.row, count - 1)
        elif final == "d":
            self.move(count - 1, self.col)
        elif final in "Hf":
            self.move(count - 1, (values[1] if len(values) > 1 else 1) - 1)
        elif final == "J":
            self.erase_screen(first)
        elif final == "K":
            ends = [(self.col, self.cols), (0, self.col + 1), (0, self.cols)]
            self.erase(self.row, *ends[min(first, 2)])
        elif final == "X":
            self.erase(self.row, self.col, self.col + count)
        elif final == "P":
            line = self.lines[self.row]
            self.lines[self.row] = (line[: self.col] + line[self.col + count :] + self.blank())[: self.cols]
        elif final == "@":
            line = self.lines[self.row]
            self.lines[self.row] = (line[: self.col] + [" "] * count + line[self.col :])[: self.cols]
        elif final in "LM" and self.top <= self.row <= self.bottom:
            top, self.top = self.top, self.row
            self.scroll(count if final == "M" else -count)
            self.top = top
        elif final in "ST":
            self.scroll(count if final == "S" else -count)
        elif final == "r":
            bottom = values[1] if len(values) > 1 and values[1] else self.rows
            self.top, self.bottom = count - 1, min(bottom, self.rows) - 1
            self.move(0, 0)
        elif final == "s":
            self.saved = (self.row, self.col)
        elif final == "u":
            self.move(*self.saved)
        elif final == "c":
            return b"\x1b[?62;22c"
        elif final == "n":
            return b"\x1b[%d;%dR" % (self.row + 1, self.col + 1) if first == 6 else b"\x1b[0n"
        elif final == "t" and first == 18:
            return b"\x1b[8;%d;%dt" % (self.rows, self.cols)
        return None

    def erase_screen(self, how):
        if how == 0:
            self.erase(self.row, self.col, self.cols)
        if how == 1:
            self.erase(self.row, 0, self.col + 1)
        reach = {0: range(self.row + 1, self.rows), 1: range(0, self.row), 2: range(self.rows)}
        for row in reach.get(how, ()):
            self.lines[row] = self.blank()
        if how == 3:
            self.scrolled = []

    def mode(self, mode, is_set):
        if mode in (47, 1047, 1049):
            if is_set and self.main is None:
                self.main = (self.lines, self.row, self.col)
                self.lines = [self.blank() for _ in range(self.rows)]
            elif not is_set and self.main is not None:
                self.lines, self.row, self.col = self.main
                self.main = None
                self.resize(self.cols, self.rows)
        (self.modes.add if is_set else self.modes.discard)(mode)

    def is_ordinary(self):
        """Nothing is left on that a shell does not have on: another screen, the mouse, pastes in brackets, other keys, no cursor."""
        unusual = {9, 47, 1000, 1001, 1002, 1003, 1004, 1005, 1006, 1015, 1047, 1049, 2004, 2026, 2031}
        return CURSOR in self.modes and not self.modes & unusual and not self.keyboards and not self.has_other_keys


steps = json.load(sys.stdin)
pid, terminal = pty.fork()
if pid == 0:
    os.execvp(sys.argv[1], sys.argv[1:])
settings = termios.tcgetattr(terminal)[:4]
seen, mark, screen = b"", 0, Screen(100, 40)


def resize(cols, rows):
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))
    screen.resize(cols, rows)


def send(data):
    while data:
        data = data[os.write(terminal, data) :]


def read(timeout):
    global seen
    if select.select([terminal], [], [], timeout)[0]:
        try:
            data = os.read(terminal, 65536)
        except OSError:
            return False
        seen += data
        send(screen.feed(data))
        return len(data) > 0
    return True


def answer(code, stuck=None):
    try:
        is_ordinary = screen.is_ordinary() and termios.tcgetattr(terminal)[:4] == settings
    except (termios.error, OSError):
        is_ordinary = False
    said = {"code": code, "stuck": stuck, "screen": seen.decode("utf-8", "replace")}
    print(json.dumps({**said, "shown": screen.shown(), "isOrdinary": is_ordinary}))
    sys.exit(0)


def expect(pattern):
    global mark
    found = re.search(pattern.encode(), seen[mark:])
    if found:
        mark += found.end()
    return found is not None


def wait(step):
    is_there = (lambda: expect(step["expect"])) if "expect" in step else (lambda: re.search(step["see"], screen.text()))
    end = time.time() + step.get("within", PATIENCE_S)
    while not is_there():
        if time.time() > end or not read(0.1):
            os.kill(pid, signal.SIGKILL)
            answer(-1, step.get("expect") or step.get("see"))


def rest(seconds):
    """What draws without end is not waited for without end."""
    end, before, since = time.time() + PATIENCE_S, len(seen), time.time()
    while time.time() < end and time.time() - since < seconds and read(0.05):
        if len(seen) != before:
            before, since = len(seen), time.time()


def close():
    os.close(terminal)
    end = time.time() + LEAVING_S
    while time.time() < end:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            answer(os.waitstatus_to_exitcode(status))
        time.sleep(0.05)
    os.kill(pid, signal.SIGKILL)
    answer(-1, "its end")


resize(100, 40)
for step in steps:
    if "send" in step:
        send(step["send"].encode())
    elif "type" in step:
        for key in step["type"]:
            send(key.encode())
            rest_until = time.time() + KEY_S
            while time.time() < rest_until and read(KEY_S):
                pass
    elif "quiet" in step:
        rest(step["quiet"])
    elif "close" in step:
        close()
    elif "resize" in step:
        resize(*step["resize"])
    else:
        wait(step)
end = time.time() + LEAVING_S
while read(1):
    if time.time() > end:
        os.kill(pid, signal.SIGKILL)
        answer(-1, "its end")
answer(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
