/** Credentials for a registry, found as the docker command finds them: a helper program, a store, or config.json itself. */
import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { z } from 'zod'
import { configDirectory, type Environment, parseJson, readIfThere } from './endpoint.ts'

const INDEX = 'https://index.docker.io/v1/'
const HELPER = /^[a-zA-Z0-9][a-zA-Z0-9._-]*$/
const HELPER_MS = 30_000
const LONGEST_ANSWER = 1024 * 1024

const CONFIG = z.looseObject({
  auths: z
    .record(z.string(), z.looseObject({ auth: z.string().optional(), identitytoken: z.string().optional() }))
    .optional(),
  credHelpers: z.record(z.string(), z.string()).optional(),
  credsStore: z.string().optional(),
})
const SECRET = z.looseObject({ Username: z.string(), Secret: z.string() })

/** What goes into X-Registry-Auth. */
export type RegistryAuth = Readonly<Record<string, string>>

/** Undefined where the user is logged in nowhere: then it is asked for as anybody may. */
export async function registryAuth(env: Environment, image: string): Promise<RegistryAuth | undefined> {
  const file = join(configDirectory(env), 'config.json')
  const text = await readIfThere(file)
  if (text === undefined) return undefined
  const config = parseJson(CONFIG, text, file)
  const server = serverOf(image)
  const helper = config.credHelpers?.[hostOf(server)] ?? config.credsStore
  const fromHelper = helper && HELPER.test(helper) ? await askHelper(env, helper, server) : undefined
  return fromHelper ?? fromFile(config.auths ?? {}, server)
}

/** The registry that an image's name leads to, as config.json writes it. */
export function serverOf(image: string): string {
  const [first = ''] = image.split('/')
  const isHost = image.includes('/') && (/[.:]/.test(first) || first === 'localhost')
  return !isHost || first === 'docker.io' || first === 'index.docker.io' ? INDEX : first
}

function hostOf(server: string): string {
  return server === INDEX ? 'docker.io' : server
}

type Auths = Readonly<Record<string, { auth?: string | undefined; identitytoken?: string | undefined }>>

function fromFile(auths: Auths, server: string): RegistryAuth | undefined {
  const entry =
    auths[server] ?? auths[hostOf(server)] ?? auths[`https://${server}`] ?? auths[`https://${server}/v1/`]
  if (!entry) return undefined
  if (entry.identitytoken) return { identitytoken: entry.identitytoken, serveraddress: server }
  const [, username, password] =
    /^([^:]+):(.*)$/s.exec(Buffer.from(entry.auth ?? '', 'base64').toString('utf8')) ?? []
  if (username === undefined || password === undefined) return undefined
  return { username, password: password.replace(/\0+$/, ''), serveraddress: server }
}

async function askHelper(
  env: Environment,
  helper: string,
  server: string,
): Promise<RegistryAuth | undefined> {
  const said = await runHelper(env, `docker-credential-${helper}`, server)
  if (said === undefined) return undefined
  const { Username, Secret } = parseJson(SECRET, said, `docker-credential-${helper}`)
  return Username === '<token>'
    ? { identitytoken: Secret, serveraddress: server }
    : { username: Username, password: Secret, serveraddress: server }
}

/** Undefined where the helper is not there, or knows nothing of the registry. */
function runHelper(env: Environment, program: string, server: string): Promise<string | undefined> {
  return new Promise((resolve) => {
    const child = spawn(program, ['get'], {
      stdio: ['pipe', 'pipe', 'ignore'],
      env: env as NodeJS.ProcessEnv,
      timeout: HELPER_MS,
    })
    let said = ''
    child.stdout.setEncoding('utf8')
    child.stdout.on('data', (text: string) => {
      said += text
      if (said.length > LONGEST_ANSWER) child.kill()
    })
    child.stdin.on('error', () => undefined)
    child.once('error', () => resolve(undefined))
    child.once('close', (code) => resolve(code === 0 ? said : undefined))
    child.stdin.end(server)
  })
}
