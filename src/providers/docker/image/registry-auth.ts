/**
 * Finds credentials for a registry like the docker command: from a helper program, a store, or config.json.
 */
import { spawn } from 'node:child_process'
import { join } from 'node:path'
import * as z from 'zod'
import { configDirectory, type EnvironmentVariables, parseJson, readIfThere } from '../daemon/endpoint.ts'

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

/** The content of X-Registry-Auth. */
export type RegistryAuth = Readonly<Record<string, string>>

/** Undefined if the user is not logged in to the registry: the pull is anonymous then. */
export async function registryAuth(
  env: EnvironmentVariables,
  image: string,
): Promise<RegistryAuth | undefined> {
  const file = join(configDirectory(env), 'config.json')
  const text = await readIfThere(file)
  if (text === undefined) return undefined
  const config = parseJson(CONFIG, text, file)
  const server = serverOf(image)
  const helper = config.credHelpers?.[hostOf(server)] ?? config.credsStore
  const fromHelper = helper && HELPER.test(helper) ? await askHelper(env, helper, server) : undefined
  return fromHelper ?? fromFile(config.auths ?? {}, server)
}

/** The same for a registry by its host, in parts. */
export async function registryCredential(
  env: EnvironmentVariables,
  host: string,
): Promise<
  | {
      readonly username?: string | undefined
      readonly password?: string | undefined
      readonly identityToken?: string | undefined
    }
  | undefined
> {
  const { username, password, identitytoken: identityToken } = (await registryAuth(env, `${host}/x`)) ?? {}
  if (identityToken !== undefined) return { identityToken }
  return username === undefined ? undefined : { username, password }
}

/** The registry of an image, as config.json names it. */
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
  env: EnvironmentVariables,
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

/** Undefined if there is no such helper, or it has no credentials for the registry. */
function runHelper(env: EnvironmentVariables, program: string, server: string): Promise<string | undefined> {
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
