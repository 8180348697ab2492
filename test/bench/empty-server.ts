/**
 * A server in Node that has no sandboxes: it repeats the answers that AgentPod's server gave to the requests
 * of one life. A life at this server is the least that the SDK, HTTP and Node take.
 */
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer, type IncomingMessage, request, type Server, type ServerResponse } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { AgentPod } from '../../src/client/client.ts'

interface Answer {
  readonly status: number
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  /** In Base64. */
  readonly body: string
}

/** By method and path. */
type Answers = Record<string, Answer>

const keyOf = ({ method, url }: IncomingMessage): string => `${method} ${url}`

export class EmptyServer implements AsyncDisposable {
  readonly #child: ChildProcess
  readonly #directory: string

  private constructor(child: ChildProcess, directory: string) {
    this.#child = child
    this.#directory = directory
  }

  /** Records what the server at `socket` answers while `life` runs. */
  static async start(socket: string, life: (pod: AgentPod) => Promise<unknown>): Promise<EmptyServer> {
    const directory = mkdtempSync(join(tmpdir(), 'agentpod-empty-'))
    const answers: Answers = {}
    const recorder = createServer((incoming, outgoing) => void record(socket, answers, incoming, outgoing))
    const place = join(directory, 'record.sock')
    await listen(recorder, place)
    await life(new AgentPod({ socket: place }))
    recorder.closeAllConnections()
    recorder.close()
    const child = fork(import.meta.filename, { serialization: 'json', execArgv: process.execArgv })
    const ready = once(child, 'message')
    child.send({ socket: join(directory, 'api.sock'), answers })
    await ready
    return new EmptyServer(child, directory)
  }

  get pid(): number {
    return this.#child.pid ?? 0
  }

  client(): AgentPod {
    return new AgentPod({ socket: join(this.#directory, 'api.sock') })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#child.kill()) await once(this.#child, 'exit')
    rmSync(this.#directory, { recursive: true })
  }
}

async function record(
  socketPath: string,
  answers: Answers,
  incoming: IncomingMessage,
  outgoing: ServerResponse,
): Promise<void> {
  const { method, url: path, headers } = incoming
  const forwarded = request({ socketPath, method, path, headers })
  forwarded.end(await buffer(incoming))
  const [response] = (await once(forwarded, 'response')) as [IncomingMessage]
  const body = await buffer(response)
  const answer = {
    status: response.statusCode ?? 0,
    headers: response.headers,
    body: body.toString('base64'),
  }
  answers[keyOf(incoming)] = answer
  repeat(answer, outgoing)
}

function repeat({ status, headers, body }: Answer, outgoing: ServerResponse): void {
  const { connection: _, 'keep-alive': __, ...rest } = headers
  outgoing.writeHead(status, rest)
  outgoing.end(Buffer.from(body, 'base64'))
}

async function listen(server: Server, path: string): Promise<void> {
  server.listen(path)
  await once(server, 'listening')
}

// Only the child has a parent to hear from.
process.once('message', (message) => {
  const { socket, answers } = message as { socket: string; answers: Answers }
  const server = createServer((incoming, outgoing) => {
    const answer = answers[keyOf(incoming)]
    incoming.resume()
    if (answer) incoming.once('end', () => repeat(answer, outgoing))
    else outgoing.writeHead(500).end(keyOf(incoming))
  })
  void listen(server, socket).then(() => process.send?.('ready'))
})
