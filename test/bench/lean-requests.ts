/** A server and a client that do as little as possible for each request: what is between them counts. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import type { Internet } from '../support/internet.ts'

export const PASSED = 'passed.example.com'
export const LEAN_PORT = 8099

/** Answers each request with a few bytes, and does nothing else. */
const LEAN_SERVER = `
const answer = 'HTTP/1.1 200 OK\\r\\ncontent-length: 2\\r\\n\\r\\nok'
require('node:net').createServer((socket) => {
  socket.on('data', () => socket.write(answer)).on('error', () => undefined)
}).listen(${LEAN_PORT}, '0.0.0.0', () => console.log('ready'))`

/** Sends so many requests over kept connections, one at a time on each, and prints the seconds. */
const LEAN_CLIENT = `
import selectors, socket, sys, time
host, port, count, connections = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
ask = ('GET /small HTTP/1.1\\r\\nhost: %s:%d\\r\\n\\r\\n' % (host, port)).encode()
all = selectors.DefaultSelector()
for _ in range(connections):
    one = socket.create_connection((host, port))
    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    all.register(one, selectors.EVENT_READ)
start, sent, answered = time.monotonic(), 0, 0
for key in list(all.get_map().values()):
    key.fileobj.sendall(ask)
    sent += 1
while answered < count:
    for key, _ in all.select():
        answer = key.fileobj.recv(4096)
        if not answer.startswith(b'HTTP/1.1 200'): sys.exit('answered %r' % answer[:200])
        if not answer.endswith(b'ok'): sys.exit('cut: %r' % answer[-20:])
        answered += 1
        if sent < count:
            key.fileobj.sendall(ask)
            sent += 1
print(time.monotonic() - start)`

/** The arguments of Python. The client prints the seconds that it took. */
export function leanClient(host: string, port: number, count: number, connections: number): string[] {
  return ['-c', LEAN_CLIENT, host, String(port), String(count), String(connections)]
}

/** Starts the server in the network of the internet that was made. */
export function startLeanServer(internet: Internet): Promise<ChildProcess> {
  const inNetwork = ['nsenter', '-t', String(internet.network.pid), '-n', '--']
  return started([...inNetwork, process.execPath, '-e', LEAN_SERVER])
}

/** Starts a server that prints a line when it listens. */
export async function started([program = '', ...args]: readonly string[]): Promise<ChildProcess> {
  const server = spawn(program, args, { stdio: ['ignore', 'pipe', 'inherit'] })
  await Promise.race([once(server.stdout, 'data'), once(server, 'exit')])
  if (server.exitCode !== null) throw new Error(`${program} ended with ${server.exitCode}`)
  return server
}
