/** Virtual machines and the processes of gVisor as the host's kernel shows them. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync, readlinkSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { allPids, idsOf, poddPid, podhostOf, quietly } from './host-view.ts'
import { outside } from './probe.ts'
import type { World } from './world.ts'

/** The processes of the world's podhost. */
export function podhostPids(world: World): number[] {
  return execFileSync('ps', ['-eo', 'pid,args'], { encoding: 'utf8' })
    .split('\n')
    .filter((line) => /podhost serve/.test(line) && line.includes(world.home))
    .map((line) => Number.parseInt(line, 10))
}

/** The supervisors of the world's virtual machines, also of one that waits for a sandbox. */
export function supervisorPids(world: World): number[] {
  return allPids().filter(
    (pid) =>
      quietly(() => readFileSync(`/proc/${pid}/cmdline`, 'utf8'))?.includes('\0vm-supervisor\0') &&
      quietly(() => readlinkSync(`/proc/${pid}/fd/1`))?.startsWith(world.home),
  )
}

export interface MachineProcesses {
  readonly supervisor: number
  readonly qemu: number
  /** The first of the sandbox's ids. */
  readonly base: number
}

/** The host's pids of the supervisor of a sandbox and of its QEMU. */
export async function machineOf(world: World, id: string): Promise<MachineProcesses> {
  const podhost = podhostOf(world)
  const supervisor = await poddPid(podhost, id)
  const { base } = await idsOf(podhost, id)
  await podhost.close()
  const qemu = allPids().find((pid) =>
    new RegExp(`^Name:\\tqemu.*[^]*^PPid:\\t${supervisor}$`, 'm').test(
      quietly(() => readFileSync(`/proc/${pid}/status`, 'utf8')) ?? '',
    ),
  )
  assert.ok(qemu, 'the supervisor has started QEMU')
  return { supervisor, qemu, base }
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
]
const LIMITS = ['Max core file size', 'Max open files']

export interface MachinePosture {
  readonly status: Readonly<Record<string, string>>
  readonly namespaces: Readonly<Record<string, 'own' | 'host'>>
  readonly limits: Readonly<Record<string, string>>
  readonly descriptors: readonly string[]
  readonly mounts: readonly string[]
  readonly network: readonly string[]
  readonly environment: readonly string[]
}

/** What one process may do and see. */
export function machinePosture(pid: number, base = 0): MachinePosture {
  const read = (name: string): string => readFileSync(`/proc/${pid}/${name}`, 'utf8')
  const ids = (text: string): string => text.replaceAll(String(base), 'base')
  const field = (text: string, name: string): string =>
    ids(
      (text.split('\n').find((line) => line.startsWith(`${name}:`) || line.startsWith(`${name} `)) ?? '')
        .slice(name.length + 1)
        .trim()
        .replaceAll(/\s+/g, ' '),
    )
  return {
    status: Object.fromEntries(STATUS.map((name) => [name, field(read('status'), name)])),
    namespaces: Object.fromEntries(
      ['cgroup', 'ipc', 'mnt', 'net', 'pid', 'user', 'uts'].map((kind) => [
        kind,
        readlinkSync(`/proc/${pid}/ns/${kind}`) === readlinkSync(`/proc/self/ns/${kind}`) ? 'host' : 'own',
      ]),
    ),
    limits: Object.fromEntries(LIMITS.map((name) => [name, field(read('limits'), name)])),
    descriptors: descriptors(pid),
    mounts: [...new Set(read('mountinfo').trim().split('\n').map(mountLine))].sort(),
    network: read('net/dev')
      .split('\n')
      .slice(2)
      .flatMap((line) => /^\s*(\S+):/.exec(line)?.[1] ?? []),
    environment: read('environ').split('\0').filter(Boolean).sort(),
  }
}

/** Kinds of descriptors, without paths and numbers that differ between sandboxes. */
function descriptors(pid: number): string[] {
  const kinds = readdirSync(`/proc/${pid}/fd`).map((fd) =>
    (quietly(() => readlinkSync(`/proc/${pid}/fd/${fd}`)) ?? '')
      .replace(/\[\d+\]/, '')
      .replace(/^.*\/machines\/sh[0-9a-f]+\/data\/memory$/, 'memory of the machine')
      .replace(/^.*\/sandboxes\/[a-z0-9]+\/upper\/disk$/, 'disk of the sandbox')
      .replace(/^.*\/layers\/[0-9a-f]+\/disk$/, 'disk of a layer')
      .replace(/^.*\/run\/s\/sh[0-9a-f]+\.log$/, 'log of the sandbox')
      .replace(/^.*\/data\/state$/, 'state that it started from')
      .replace(/^\/root(?:\/.*)?$/, 'a file of the root')
      .replace(/^.*\/agentpod\/[0-9a-f]+\/sh[0-9a-f]+\/cpu\..*$/, 'processor limit of the sandbox')
      .replace(/^\/mnt\/run\/sh[0-9a-f]+\/config\.json$/, 'configuration of the sandbox'),
  )
  return [...new Set(kinds)].sort()
}

/** Mount point, kind and flags. The mounts in a gVisor sandbox's root depend on the machine's toolchains. */
function mountLine(line: string): string {
  const [before = '', after = ''] = line.split(' - ')
  const [, , , , point = '', flags = ''] = before.split(' ')
  const kept = flags.split(',').filter((flag) => /^(?:ro|rw|nosuid|nodev|noexec)$/.test(flag))
  const kind = after.split(' ')[0] ?? ''
  const shown = point.replace(/^\/slot\/root\/(?!\.agentpod\/).*$/, '/slot/root/*')
  return `${shown} ${/^(?:tmpfs|proc)$/.test(kind) ? kind : 'host'} ${kept.join(',')}`
}

/** Those of the texts that are anywhere on the disk of a snapshot. The holes of its file are left out. */
export function foundOnDisk(world: World, snapshot: string, texts: readonly string[]): Promise<string[]> {
  const [podhost = 0] = podhostPids(world)
  const kept = `/proc/${podhost}/root/mnt/pool/snapshots/${snapshot}`
  return outside<string[]>(`
import glob
texts, found = [t.encode() for t in ${JSON.stringify(texts)}], set()
[disk] = glob.glob(${JSON.stringify(kept)} + '/**/disk', recursive=True)
fd, at, before = os.open(disk, os.O_RDONLY), 0, b''
while True:
  try: at = os.lseek(fd, at, os.SEEK_DATA)
  except OSError: break
  end = os.lseek(fd, at, os.SEEK_HOLE)
  before = b''
  while at < end:
    data = os.pread(fd, min(1 << 24, end - at), at)
    found.update(t for t in texts if t in before + data)
    at, before = at + len(data), data[-4096:]
tell([t.decode() for t in found])`)
}

/** What machines start from, in podhost's mount namespace: the digest of each file. */
export function sharedMachineFiles(world: World): Record<string, string> {
  const [podhost = 0] = podhostPids(world)
  const pool = `/proc/${podhost}/root/mnt/pool/machines`
  return Object.fromEntries(
    readdirSync(pool)
      .filter((name) => /^(?:template|environ)/.test(name))
      .flatMap((name) => ['memory', 'state'].map((file) => join(name, 'data', file)))
      // That of a machine with the usual limits takes a while to read.
      .filter((file) => statSync(join(pool, file)).size < 2 ** 30)
      .map((file) => [
        file,
        execFileSync('sha256sum', [join(pool, file)], { encoding: 'utf8' }).slice(0, 64),
      ]),
  )
}
