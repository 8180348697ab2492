/** Finds the hosts that a program contacts: acts as its proxy while it runs once in a temporary directory. */
import { spawn } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { type AddressInfo, connect } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'

export interface Watched {
  readonly command: string
  readonly args: readonly string[]
  readonly cwd: string
  readonly env: Readonly<Record<string, string | undefined>>
  /** Written into the directory first. */
  readonly files: Readonly<Record<string, string>>
}

const WITHIN_MS = 60_000
const MOST_HOSTS = 32
const AUTHORITY = /^([a-z0-9.-]+):(\d{1,5})$/i

/** Undefined if the program is not installed. It may fail: its requests have been seen by then. */
export async function watchHosts(
  plan: (proxy: string, scratch: string) => Watched,
): Promise<string[] | undefined> {
  // An `import` would load much more than a server, in every command that has an environment.
  const { createServer } = process.getBuiltinModule('node:http')
  const hosts = new Set<string>()
  const note = (host: string, port: number): void => {
    if (hosts.size < MOST_HOSTS) hosts.add(port === 443 || port === 80 ? host : `${host}:${port}`)
  }
  const proxy = createServer((request, response) => {
    const url = URL.parse(request.url ?? '')
    if (url) note(url.hostname, Number(url.port || 80))
    response.writeHead(403, { connection: 'close', 'content-length': '0' }).end()
  })
  proxy.on('connect', (request, client) => {
    const [, host = '', port = ''] = AUTHORITY.exec(request.url ?? '') ?? []
    client.on('error', () => client.destroy())
    if (host === '') return client.destroy()
    note(host.toLowerCase(), Number(port))
    const server = connect(Number(port), host, () => {
      client.write('HTTP/1.1 200 Connection Established\r\n\r\n')
      server.pipe(client)
      client.pipe(server)
    })
    server.on('error', () => client.destroy())
    client.on('close', () => server.destroy())
  })
  const scratch = mkdtempSync(join(tmpdir(), 'agentpod-preset-'))
  try {
    await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve))
    const { port } = proxy.address() as AddressInfo
    const isThere = await run(plan(`http://127.0.0.1:${port}`, scratch), scratch)
    return isThere ? [...hosts] : undefined
  } finally {
    proxy.close()
    proxy.closeAllConnections()
    rmSync(scratch, { recursive: true, force: true })
  }
}

function run({ command, args, cwd, env, files }: Watched, scratch: string): Promise<boolean> {
  for (const [path, text] of Object.entries(files)) {
    const file = join(scratch, path)
    mkdirSync(dirname(file), { recursive: true })
    writeFileSync(file, text, { mode: 0o600 })
  }
  return new Promise((resolve) => {
    const child = spawn(command, args, {
      cwd,
      env: { ...env },
      stdio: 'ignore',
      timeout: WITHIN_MS,
      killSignal: 'SIGKILL',
    })
    child.once('error', () => resolve(false))
    child.once('exit', () => resolve(true))
  })
}
