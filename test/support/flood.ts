/** A program inside that asks for what it may not have, as often as it can. */
import type { Sandbox } from '../../src/client/sandbox.ts'
import { DOORS } from './doors.ts'
import { PRELUDE } from './probe.ts'

/** Made-up names and a few that repeat, over so many connections; says how many were made. */
export async function flood(sandbox: Sandbox, count: number): Promise<number> {
  const program = `${PRELUDE}${DOORS}
import select
left, made = ${count}, 0
def begin():
  s = socket.socket()
  s.setblocking(False)
  try: s.connect(DOOR)
  except BlockingIOError: pass
  return s
poll, open_ = select.epoll(), {}
while made < ${count}:
  while len(open_) < 100:
    s = begin()
    open_[s.fileno()] = s
    poll.register(s.fileno(), select.EPOLLOUT)
  for fd, event in poll.poll(1):
    s = open_[fd]
    try:
      if event & select.EPOLLOUT:
        host = 'evil-%d.example' % (made if made % 3 else made % 7)
        s.send(page(host, 'http://%s/%d' % (host, made)))
        poll.modify(fd, select.EPOLLIN)
        continue
      if s.recv(65536): continue
    except OSError: pass
    poll.unregister(fd)
    open_.pop(fd).close()
    made += 1
tell(made)`
  const { stdout } = await sandbox
    .exec('/usr/bin/python3', { args: ['-c', program], timeoutMs: 3_600_000 })
    .wait()
  return Number(stdout.trim())
}
