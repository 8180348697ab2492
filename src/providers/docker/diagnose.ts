/** What is wrong with a daemon, and what to do about it. */
import { access, constants } from 'node:fs/promises'
import type { CallOptions } from '../../core/call.ts'
import type { Check } from '../../core/capability.ts'
import { isAgentPodError } from '../../core/error.ts'
import type { Info } from './answers.ts'
import type { Daemon } from './daemon.ts'
import { describeEndpoint } from './daemon-error.ts'
import type { DaemonLimits } from './daemon-limits.ts'
import type { Endpoint } from './endpoint.ts'

export async function diagnose(
  daemon: Daemon,
  limits: DaemonLimits,
  poddFile: string,
  o: CallOptions,
): Promise<readonly Check[]> {
  try {
    const endpoint = await daemon.endpoint()
    limits.forget()
    const { engine, api } = await daemon.versions()
    const info = await limits.info(o)
    return [
      good('docker', `Docker ${engine} (API ${api}) at ${describeEndpoint(endpoint)}, from ${endpoint.from}`),
      ...transportCheck(endpoint),
      platformCheck(info),
      seccompCheck(info),
      ...limitChecks(info, limits),
      await poddCheck(poddFile),
    ]
  } catch (error) {
    const { message, hint } = isAgentPodError(error) ? error : { message: String(error), hint: undefined }
    return [{ name: 'docker', ok: false, required: true, detail: message, hint }]
  }
}

function good(name: string, detail: string): Check {
  return { name, ok: true, required: true, detail }
}

function transportCheck(endpoint: Endpoint): Check[] {
  if (endpoint.kind !== 'tcp' || endpoint.tls?.verify) return []
  const isLocal = /^(?:localhost|127\.|::1$)/.test(endpoint.host)
  const detail = endpoint.tls
    ? 'the daemon’s certificate is not checked'
    : 'the connection to the daemon is neither encrypted nor checked'
  return [
    {
      name: 'docker transport',
      ok: isLocal,
      required: false,
      detail: isLocal ? `${detail}, on this machine alone` : `${detail}: whoever can reach it is root there`,
      hint: isLocal ? undefined : 'use ssh://, or tcp:// with DOCKER_TLS_VERIFY=1 and DOCKER_CERT_PATH',
    },
  ]
}

const MACHINES: Readonly<Record<string, string>> = { x64: 'x86_64', arm64: 'aarch64' }

/** podd is a program for this machine's processor, and is put into the daemon's containers. */
function platformCheck({ OSType, Architecture }: Info): Check {
  const ours = MACHINES[process.arch] ?? process.arch
  const theirs = Architecture === 'amd64' ? 'x86_64' : Architecture === 'arm64' ? 'aarch64' : Architecture
  const ok = OSType === 'linux' && theirs === ours
  return {
    name: 'docker platform',
    ok,
    required: true,
    detail: `the daemon runs ${OSType} on ${theirs}${ok ? '' : `; AgentPod’s own program is for linux on ${ours}`}`,
    hint: ok ? undefined : 'use a daemon for linux containers on the same kind of processor',
  }
}

function seccompCheck({ SecurityOptions }: Info): Check {
  const ok = SecurityOptions.some((option) => /\bseccomp\b/.test(option))
  return {
    name: 'docker seccomp',
    ok,
    required: true,
    detail: ok ? 'system calls are filtered' : 'the daemon cannot filter system calls',
    hint: ok ? undefined : 'use a daemon whose kernel and runtime have seccomp',
  }
}

function limitChecks(info: Info, limits: DaemonLimits): Check[] {
  const levels = limits.levels(info, 1)
  return (['memory', 'cpus', 'pids', 'disk'] as const).map((name) => ({
    name: `docker limit on ${name}`,
    ok: levels[name].level === 'enforced',
    required: false,
    detail: levels[name].reason ?? 'enforced',
    hint:
      levels[name].level === 'enforced'
        ? undefined
        : name === 'disk'
          ? 'give Docker an overlay2 store on xfs with pquota, or btrfs; other limits hold without'
          : 'give the daemon the cgroup controllers memory, cpu and pids',
  }))
}

async function poddCheck(poddFile: string): Promise<Check> {
  const ok = await access(poddFile, constants.R_OK).then(
    () => true,
    () => false,
  )
  return {
    name: 'podd',
    ok,
    required: true,
    detail: ok ? 'the program that runs inside is built' : 'the program that runs inside is not there',
    hint: ok ? undefined : 'run scripts/build',
  }
}
