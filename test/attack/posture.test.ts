/**
 * The posture of podd and of a payload as the host's kernel shows it, compared with a golden file for each
 * kind of machine. Any difference fails; AGENTPOD_UPDATE_GOLDEN=1 rewrites the file, for a person to read
 * before it is committed.
 */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync, readlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import type { Process } from '../../src/client/process.ts'
import type { Sandbox } from '../../src/client/sandbox.ts'
import { cgroupDirectory, hostPid, idsOf, poddPid, podhostOf, quietly } from '../support/host-view.ts'
import { CANNOT_SET_OOM_FLOOR } from '../support/kernel-probes.ts'
import { until, World } from '../support/world.ts'

const world = new World()
const podhost = podhostOf(world)
const RESOURCES = { memoryMib: 512, swapMib: 0, cpus: 1, pids: 128, files: 4096, tmpMib: 64, shmMib: 32 }

after(async () => {
  await podhost.close()
  await world[Symbol.asyncDispose]()
})

interface Posture {
  readonly status: Record<string, string>
  readonly namespaces: Record<string, 'own' | 'host'>
  readonly uidMap: string
  readonly gidMap: string
  readonly limits: Record<string, string>
  readonly descriptors: readonly string[]
  readonly mounts: readonly string[]
  readonly kernelFiles: { readonly proc: readonly string[]; readonly sys: readonly string[] }
  readonly buffers: Record<string, string>
  readonly environment: readonly string[]
  readonly oomScoreAdj: string
  readonly terminal: string
  readonly workingDirectory: string
  readonly root: string
  readonly groups: Record<string, string>
}

const STATUS = [
  'Uid',
  'Gid',
  'Groups',
  'CapInh',
  'CapPrm',
  'CapEff',
  'CapBnd',
  'CapAmb',
  'NoNewPrivs',
  'Seccomp',
  'Seccomp_filters',
  'Umask',
  'CoreDumping',
]
const LIMITS = [
  'Max core file size',
  'Max open files',
  'Max locked memory',
  'Max realtime priority',
  'Max nice priority',
  'Max msgqueue size',
]
/** In these a host shows its own tools; what they are differs from machine to machine. */
const OWN_MOUNTS = /^\/(?:$|proc|dev|sys|tmp|run|\.agentpod|usr$|opt$)/

function postureOf(pid: number, o: { base: number; id: string }): Posture {
  const read = (name: string): string => readFileSync(`/proc/${pid}/${name}`, 'utf8')
  const ids = (text: string): string =>
    text.replaceAll(/\d+/g, (n) =>
      Number(n) >= o.base && Number(n) < o.base + 65536 ? `base+${Number(n) - o.base}` : n,
    )
  const fields = (text: string, names: readonly string[]): Record<string, string> =>
    Object.fromEntries(
      names.map((name) => {
        const line =
          text.split('\n').find((one) => one.startsWith(`${name}:`) || one.startsWith(`${name} `)) ?? ''
        return [name, ids(line.slice(name.length).replace(/^:/, '').trim().replaceAll(/\s+/g, ' '))]
      }),
    )
  return {
    status: fields(read('status'), STATUS),
    namespaces: Object.fromEntries(
      ['cgroup', 'ipc', 'mnt', 'net', 'pid', 'time', 'user', 'uts'].map((kind) => [
        kind,
        readlinkSync(`/proc/${pid}/ns/${kind}`) === readlinkSync(`/proc/self/ns/${kind}`) ? 'host' : 'own',
      ]),
    ),
    uidMap: ids(read('uid_map').trim().replaceAll(/\s+/g, ' ')),
    gidMap: ids(read('gid_map').trim().replaceAll(/\s+/g, ' ')),
    limits: fields(read('limits'), LIMITS),
    descriptors: descriptors(pid),
    mounts: read('mountinfo')
      .trim()
      .split('\n')
      .map((line) => mount(line, o))
      .filter((line) => line !== undefined)
      .map(ids)
      .sort(),
    kernelFiles: kernelFiles(pid),
    buffers: Object.fromEntries(
      ['tcp_rmem', 'tcp_wmem'].map((name) => [name, sysctlInside(pid, `net/ipv4/${name}`)]),
    ),
    environment: read('environ')
      .split('\0')
      .filter(Boolean)
      .map((pair) => pair.split('=')[0] ?? '')
      .filter(
        (name) => !/^(JAVA_HOME|GOROOT|DOTNET_ROOT|RUSTUP_HOME|PYENV_ROOT|RBENV_ROOT|VOLTA_HOME)$/.test(name),
      )
      .sort(),
    oomScoreAdj: read('oom_score_adj')
      .trim()
      .replace(CANNOT_SET_OOM_FLOOR === false ? /^100$/ : /^0$/, 'least'),
    terminal:
      read('stat')
        .replace(/^.*\) /s, '')
        .split(' ')[4] ?? '',
    workingDirectory: readlinkSync(`/proc/${pid}/cwd`),
    root: readlinkSync(`/proc/${pid}/root`),
    groups: groups(pid),
  }
}

/**
 * The kind of each descriptor, without inode numbers; the number of the runtime's own descriptors does not
 * matter.
 */
function descriptors(pid: number): string[] {
  const kinds = readdirSync(`/proc/${pid}/fd`).map((fd) => {
    const target = quietly(() => readlinkSync(`/proc/${pid}/fd/${fd}`)) ?? ''
    const kind = target
      .replace(/\[\d+\]/, '')
      .replace(/^.*\/run\/s\/sh[0-9a-f]+\.log$/, 'log of the sandbox')
      .replace(
        /^(\/sys\/fs\/cgroup)?.*\/(tasks|cgroup\.threads|memory\.events|memory\.oom_control)$/,
        'cgroup $2',
      )
    return Number(fd) <= 2 ? `${fd}: ${kind}` : kind
  })
  return [...new Set(kinds)].sort()
}

/** Mount point, flags, kind and the options that matter; undefined for a tool directory of this machine. */
function mount(line: string, o: { id: string }): string | undefined {
  const [before = '', after = ''] = line.split(' - ')
  const point = before.split(' ')[4] ?? ''
  const flags = before.split(' ')[5] ?? ''
  const [kind = '', , options = ''] = after.split(' ')
  if (!OWN_MOUNTS.test(point)) return undefined
  const kept = kind === 'tmpfs' || kind === 'devpts' ? options.replace(/,?(inode64|nr_inodes=\d+)/g, '') : ''
  const shown = /\bsize=|gid=/.test(kept) && !point.startsWith('/proc/sys/kernel/random') ? ` ${kept}` : ''
  // /proc and /sys differ in what kernels have there; kernelFiles has what is shown of them.
  if (/^\/(?:proc|sys)\/(?!sys$|sys\/kernel\/random\/boot_id$)/.test(point)) return undefined
  return `${point.replace(o.id, 'id')} ${kind} ${flags}${shown}`
}

/** What of /proc is not covered, beside processes, and what of the kernel's own /sys is shown. */
function kernelFiles(pid: number): Posture['kernelFiles'] {
  const mounts = readFileSync(`/proc/${pid}/mountinfo`, 'utf8')
    .trim()
    .split('\n')
    .map((line) => ({ point: line.split(' ')[4] ?? '', kind: line.split(' - ')[1]?.split(' ')[0] ?? '' }))
  const covered = new Set(mounts.filter(({ kind }) => kind === 'tmpfs').map(({ point }) => point))
  return {
    proc: readdirSync(`/proc/${pid}/root/proc`)
      .filter((name) => !/^\d+$/.test(name) && !covered.has(`/proc/${name}`))
      .sort(),
    sys: mounts
      .filter(({ kind }) => kind === 'sysfs')
      .map(({ point }) => point)
      .sort(),
  }
}

/** A setting of the process's network namespace. */
function sysctlInside(pid: number, name: string): string {
  const path = `/proc/sys/${name}`
  return execFileSync('nsenter', [`--net=/proc/${pid}/ns/net`, 'cat', path], { encoding: 'utf8' })
    .trim()
    .replaceAll(/\s+/g, ' ')
}

/** The limits that hold for the process, as the groups have them. */
function groups(pid: number): Record<string, string> {
  const read = (controller: string, file: string): string =>
    quietly(() => readFileSync(join(cgroupDirectory(pid, controller), file), 'utf8').trim()) ?? 'absent'
  const found: Record<string, string> = {}
  for (const [controller, file] of [
    ['memory', 'memory.limit_in_bytes'],
    ['memory', 'memory.memsw.limit_in_bytes'],
    ['memory', 'memory.kmem.tcp.limit_in_bytes'],
    ['memory', 'memory.max'],
    ['memory', 'memory.swap.max'],
    ['cpu', 'cpu.cfs_quota_us'],
    ['cpu', 'cpu.cfs_period_us'],
    ['cpu', 'cpu.max'],
    ['pids', 'pids.max'],
  ] as const)
    found[file] = read(controller, file)
  const devices = quietly(() =>
    readFileSync(join(cgroupDirectory(pid, 'devices'), 'devices.list'), 'utf8').trim(),
  )
  if (devices !== undefined) found['devices.list'] = devices
  return found
}

describe('the posture of a sandbox', () => {
  let sandbox: Sandbox
  let sleeper: Process
  let ended: Promise<unknown>
  let kind = ''
  let seen: Record<string, Posture>

  before(async () => {
    sandbox = await world.client().create({ resources: RESOURCES })
    const sudo = await world.client().create({ resources: RESOURCES, environment: { sudo: true } })
    const hello = (await podhost.call('hello', {}, { timeoutMs: 10_000 })) as {
      rootless: boolean
      cgroup: string
    }
    kind = `${hello.rootless ? 'rootless' : 'root'}-${hello.cgroup}`
    const look = async (of: Sandbox, user: string): Promise<Posture> => {
      // It stops itself: then it has started up and does nothing more.
      sleeper = of.exec('/bin/sh', { args: ['-c', 'kill -STOP $$'], user })
      ended = sleeper.wait().catch(() => undefined)
      const podd = await poddPid(podhost, of.id)
      const pid = hostPid(podd, await sleeper.pid)
      await until('the payload has stopped', () =>
        /^State:\tT/m.test(readFileSync(`/proc/${pid}/status`, 'utf8')),
      )
      const posture = postureOf(pid, { base: (await idsOf(podhost, of.id)).base, id: of.id })
      await sleeper.signal('SIGKILL')
      await ended
      return posture
    }
    seen = {
      podd: postureOf(await poddPid(podhost, sandbox.id), {
        base: (await idsOf(podhost, sandbox.id)).base,
        id: sandbox.id,
      }),
      payload: await look(sandbox, 'user'),
      'root payload': await look(sandbox, 'root'),
      'payload with sudo': await look(sudo, 'user'),
      'root payload with sudo': await look(sudo, 'root'),
    }
  })

  test('the posture of a sandbox is that of the golden file for this kind of machine', (t) => {
    const file = join(import.meta.dirname, 'golden', `posture-${kind}.json`)
    const text = `${JSON.stringify(seen, null, 2)}\n`
    if (process.env['AGENTPOD_UPDATE_GOLDEN'] === '1') {
      writeFileSync(file, text)
      t.diagnostic(`${file} was written: read it`)
    }
    if (!existsSync(file))
      return t.skip(`no golden file for machines of kind ${kind}: AGENTPOD_UPDATE_GOLDEN=1 makes one`)
    assert.deepEqual(seen, JSON.parse(readFileSync(file, 'utf8')))
  })

  test('the posture of a sandbox has what no golden file may take away', () => {
    for (const [who, posture] of Object.entries(seen)) {
      for (const namespace of ['cgroup', 'ipc', 'mnt', 'net', 'pid', 'user', 'uts'])
        assert.equal(posture.namespaces[namespace], 'own', `${namespace} of ${who}`)
      assert.equal(posture.status['Seccomp'], '2', who)
      assert.equal(posture.terminal, '0', who)
      assert.match(posture.uidMap, /^0 (?:base\+0|1) 65536$/, who)
      assert.ok(!posture.status['Uid']?.split(' ').includes('0'), `${who} is root outside`)
      if (who === 'podd') continue
      assert.equal(posture.descriptors.length, 3, `${who} has ${posture.descriptors.join(', ')}`)
      if (who.includes('sudo')) continue
      assert.equal(posture.status['NoNewPrivs'], '1', who)
      for (const set of ['CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb'])
        assert.match(posture.status[set] ?? '', /^0+$/, `${set} of ${who}`)
    }
  })

  test('the control: this test’s own process has none of that posture', () => {
    const own = readFileSync('/proc/self/status', 'utf8')
    assert.match(own, /^Seccomp:\t0$/m)
    assert.doesNotMatch(own, /^CapEff:\t0+$/m)
  })
})
