/** Checks a daemon, with a hint for each problem. */
import { access, constants } from 'node:fs/promises'
import type { CallOptions } from '../../core/call.ts'
import type { Check } from '../../core/capability.ts'
import { isAgentPodError } from '../../core/error.ts'
import { describeEndpoint } from './daemon/connection-error.ts'
import type { Daemon } from './daemon/daemon.ts'
import type { DaemonLimits } from './daemon/daemon-limits.ts'
import type { Endpoint } from './daemon/endpoint.ts'
import type { Info } from './daemon/responses.ts'

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
    ? 'the certificate of the daemon is not verified'
    : 'the connection to the daemon is not encrypted and the daemon is not verified'
  return [
    {
      name: 'docker transport',
      ok: isLocal,
      required: false,
      detail: isLocal
        ? `${detail}, reachable from this machine only`
        : `${detail}: anyone who can reach it is root there`,
      hint: isLocal ? undefined : 'use ssh://, or tcp:// with DOCKER_TLS_VERIFY=1 and DOCKER_CERT_PATH',
    },
  ]
}

const MACHINES: Readonly<Record<string, string>> = { x64: 'x86_64', arm64: 'aarch64' }

/** podd is built for this machine's processor, and runs in the daemon's containers. */
function platformCheck({ OSType, Architecture }: Info): Check {
  const ours = MACHINES[process.arch] ?? process.arch
  const theirs = Architecture === 'amd64' ? 'x86_64' : Architecture === 'arm64' ? 'aarch64' : Architecture
  const ok = OSType === 'linux' && theirs === ours
  return {
    name: 'docker platform',
    ok,
    required: true,
    detail: `the daemon runs ${OSType} on ${theirs}${ok ? '' : `; podd is built for linux on ${ours}`}`,
    hint: ok ? undefined : 'use a daemon for Linux containers on the same processor architecture',
  }
}

function seccompCheck({ SecurityOptions }: Info): Check {
  const ok = SecurityOptions.some((option) => /\bseccomp\b/.test(option))
  return {
    name: 'docker seccomp',
    ok,
    required: true,
    detail: ok ? 'system calls are filtered' : 'the daemon cannot filter system calls',
    hint: ok ? undefined : 'use a daemon whose kernel and runtime support seccomp',
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
          ? 'use overlay2 on xfs with pquota, or btrfs; the other limits work without'
          : 'enable the cgroup controllers memory, cpu and pids for the daemon',
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
    detail: ok ? 'podd is built' : 'podd is not built',
    hint: ok ? undefined : 'run scripts/build',
  }
}
