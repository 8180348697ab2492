/**
 * git's own server for repositories over HTTPS, `git http-backend`, in the network namespace that it is
 * started in. Reads its setup as one line of JSON, writes the path of each request as a line, and ends with
 * its input.
 */
import { spawn } from 'node:child_process'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { createServer } from 'node:https'
import { createInterface } from 'node:readline'

export interface GitServerSetup {
  /** The directory with the repositories. */
  readonly root: string
  readonly port: number
  readonly cert: string
  readonly key: string
}

const input = createInterface({ input: process.stdin })
input.once('line', (line) => {
  const { root, port, cert, key } = JSON.parse(line) as GitServerSetup
  const server = createServer({ cert, key }, (request, response) => answer(root, request, response))
  server.listen(port, '0.0.0.0', () => process.stdout.write('ready\n'))
})
input.once('close', () => process.exit(0))

function answer(root: string, request: IncomingMessage, response: ServerResponse): void {
  const [path = '', query = ''] = (request.url ?? '').split('?')
  process.stdout.write(`${request.method} ${path}\n`)
  const { headers } = request
  const child = spawn('git', ['http-backend'], {
    env: {
      PATH: process.env['PATH'],
      GIT_PROJECT_ROOT: root,
      GIT_HTTP_EXPORT_ALL: '1',
      GIT_CONFIG_COUNT: '1',
      GIT_CONFIG_KEY_0: 'safe.directory',
      GIT_CONFIG_VALUE_0: '*',
      PATH_INFO: path,
      QUERY_STRING: query,
      REQUEST_METHOD: request.method ?? 'GET',
      CONTENT_TYPE: headers['content-type'] ?? '',
      HTTP_CONTENT_ENCODING: headers['content-encoding'] ?? '',
      GIT_PROTOCOL: String(headers['git-protocol'] ?? ''),
    },
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  child.stdin.on('error', () => undefined)
  request.pipe(child.stdin)
  let head: Buffer | undefined = Buffer.alloc(0)
  child.stdout.on('data', (data: Buffer) => {
    if (!head) return void response.write(data)
    head = Buffer.concat([head, data])
    const end = head.indexOf('\r\n\r\n')
    if (end < 0) return
    for (const line of head.subarray(0, end).toString().split('\r\n')) {
      const [name = '', value = ''] = line.split(/:\s*/, 2)
      if (name.toLowerCase() === 'status') response.statusCode = Number.parseInt(value, 10)
      else response.setHeader(name, value)
    }
    response.write(head.subarray(end + 4))
    head = undefined
  })
  child.stdout.on('end', () => response.end())
}
