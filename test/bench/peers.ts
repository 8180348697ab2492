/** The floor and the peers: whichever of them this machine has, each doing the same small thing. */
import { execFileSync, spawn } from 'node:child_process'
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { timed } from './measure.ts'

export function which(program: string): string | undefined {
  return (process.env['PATH'] ?? '')
    .split(delimiter)
    .map((directory) => join(directory, program))
    .find((path) => existsSync(path))
}

export function run(program: string, args: readonly string[]): Promise<void> {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, { stdio: ['ignore', 'ignore', 'pipe'] })
    let said = ''
    child.stderr.on('data', (data: Buffer) => {
      said += data.toString()
    })
    child.once('error', reject)
    child.once('close', (code) =>
      code === 0 ? resolve() : reject(new Error(`${program} ${args.join(' ')}: ${code} ${said}`)),
    )
  })
}

export interface Peer {
  readonly name: string
  /** Creates, runs /usr/bin/true, and is gone. */
  cold(): Promise<void>
  /** Runs /usr/bin/true in one that lives; absent where the peer has no such thing. */
  exec?: () => Promise<void>
  /** Takes these files into one that lives, and then an image of it, which is what is timed. */
  commit?: (directory: string) => Promise<number>
  close(): void
}

/** Peers that work here; the others are named with the reason. */
export async function findPeers(scratch: string): Promise<{ peers: Peer[]; missing: string[] }> {
  const peers: Peer[] = []
  const missing: string[] = []
  for (const make of [hostSpawn, bwrap, runtime('crun'), runtime('runc'), podman, docker]) {
    try {
      const peer = make(scratch)
      await peer.cold()
      await peer.exec?.()
      peers.push(peer)
    } catch (error) {
      missing.push(
        `${make.peerName}: ${String((error as Error).message)
          .split(':')[0]
          ?.slice(0, 60)}`,
      )
    }
  }
  return { peers, missing }
}

type Make = { (scratch: string): Peer; peerName: string }

function named(peerName: string, make: (scratch: string) => Peer): Make {
  return Object.assign(make, { peerName })
}

function need(program: string): string {
  const found = which(program)
  if (!found) throw new Error('not installed')
  return found
}

const hostSpawn = named('host spawn', () => ({
  name: 'host spawn',
  cold: () => run('/usr/bin/true', []),
  close() {},
}))

const bwrap = named('bwrap', () => {
  const program = need('bwrap')
  const args = [
    '--unshare-all',
    '--ro-bind',
    '/usr',
    '/usr',
    '--symlink',
    'usr/lib',
    '/lib',
    '--symlink',
    'usr/lib64',
    '/lib64',
    '--proc',
    '/proc',
    '--dev',
    '/dev',
    '/usr/bin/true',
  ]
  return { name: 'bwrap', cold: () => run(program, args), close() {} }
})

/** An OCI bundle with the namespaces, the mapping and the mounts of ours, and this machine's /usr. */
function bundle(directory: string, args: readonly string[]): string {
  const rootfs = join(directory, 'rootfs')
  for (const name of ['usr', 'proc', 'dev', 'sys', 'tmp', 'run', 'lib', 'lib64', 'bin'])
    mkdirSync(join(rootfs, name), { recursive: true })
  const bind = (path: string, from = path): object => ({
    destination: path,
    source: from,
    type: 'bind',
    options: ['rbind', 'ro'],
  })
  const range = [{ containerID: 0, hostID: 0x7f000000, size: 65536 }]
  writeFileSync(
    join(directory, 'config.json'),
    JSON.stringify({
      ociVersion: '1.0.2',
      process: { args, cwd: '/', env: ['PATH=/usr/bin'], user: { uid: 0, gid: 0 }, noNewPrivileges: true },
      root: { path: 'rootfs' },
      hostname: 'bench',
      mounts: [
        { destination: '/proc', type: 'proc', source: 'proc' },
        {
          destination: '/dev',
          type: 'tmpfs',
          source: 'tmpfs',
          options: ['nosuid', 'mode=755', 'size=65536k'],
        },
        { destination: '/tmp', type: 'tmpfs', source: 'tmpfs', options: ['nosuid', 'nodev'] },
        { destination: '/run', type: 'tmpfs', source: 'tmpfs', options: ['nosuid', 'nodev'] },
        bind('/usr'),
        bind('/lib', '/usr/lib'),
        bind('/lib64', '/usr/lib64'),
        bind('/bin', '/usr/bin'),
      ],
      linux: {
        uidMappings: range,
        gidMappings: range,
        namespaces: ['user', 'pid', 'mount', 'network', 'ipc', 'uts', 'cgroup'].map((type) => ({ type })),
      },
    }),
  )
  return directory
}

function runtime(name: 'crun' | 'runc'): Make {
  return named(name, (scratch) => {
    const program = need(name)
    const state = [
      '--root',
      join(scratch, `${name}-state`),
      ...(name === 'crun' ? ['--cgroup-manager=disabled'] : []),
    ]
    const once = bundle(join(scratch, `${name}-once`), ['/usr/bin/true'])
    const idle = bundle(join(scratch, `${name}-idle`), ['/usr/bin/sleep', '86400'])
    const id = `${name}-idle-${process.pid}`
    // What stays running would hold a pipe open, and the call with it.
    execFileSync(program, [...state, 'run', '--detach', '--bundle', idle, id], { stdio: 'ignore' })
    let count = 0
    return {
      name,
      cold: () => run(program, [...state, 'run', '--bundle', once, `${name}-${process.pid}-${count++}`]),
      exec: () => run(program, [...state, 'exec', id, '/usr/bin/true']),
      close: () => void execFileSync(program, [...state, 'delete', '--force', id]),
    }
  })
}

/** Engines want an image: one with nothing but a static program. */
function image(scratch: string): string {
  const directory = join(scratch, 'image')
  const file = join(scratch, 'image.tar')
  if (existsSync(file)) return file
  mkdirSync(join(directory, 'usr', 'bin'), { recursive: true })
  writeFileSync(
    join(directory, 'main.go'),
    'package main\nimport ("os";"time")\nfunc main() { if len(os.Args) > 1 { time.Sleep(24*time.Hour) } }\n',
  )
  execFileSync('go', ['build', '-o', 'usr/bin/true', 'main.go'], {
    cwd: directory,
    env: { ...process.env, CGO_ENABLED: '0', GOFLAGS: '' },
  })
  execFileSync('tar', ['cf', file, '-C', directory, 'usr'])
  return file
}

function engine(
  name: string,
  program: string,
  global: readonly string[],
  flags: readonly string[],
  scratch: string,
): Peer {
  const tag = 'agentpod-bench:1'
  execFileSync(program, [...global, 'import', image(scratch), tag], { stdio: ['ignore', 'ignore', 'pipe'] })
  const id = `agentpod-bench-${process.pid}`
  execFileSync(
    program,
    [...global, 'run', '--detach', '--name', id, ...flags, tag, '/usr/bin/true', 'idle'],
    { stdio: ['ignore', 'ignore', 'pipe'] },
  )
  return {
    name,
    cold: () => run(program, [...global, 'run', '--rm', ...flags, tag, '/usr/bin/true']),
    exec: () => run(program, [...global, 'exec', id, '/usr/bin/true']),
    async commit(directory) {
      await run(program, [...global, 'cp', directory, `${id}:/data`])
      return timed(() => run(program, [...global, 'commit', id, 'agentpod-bench:2']))
    },
    close: () => void execFileSync(program, [...global, 'rm', '--force', id], { stdio: 'ignore' }),
  }
}

const podman = named('podman', (scratch) => {
  const program = need('podman')
  const global = [
    '--root',
    join(scratch, 'podman'),
    '--runroot',
    join(scratch, 'podman-run'),
    '--cgroup-manager=cgroupfs',
    '--events-backend=file',
    ...(which('runc') ? ['--runtime', 'runc'] : []),
  ]
  const flags = ['--network=none', '--ulimit', 'nofile=1024:1024', '--ulimit', 'nproc=4096:4096']
  return engine('podman', program, global, flags, scratch)
})

const docker = named('docker', (scratch) => {
  const program = need('docker')
  const daemon = need('dockerd')
  const socket = `unix://${join(scratch, 'docker.sock')}`
  const directories = [
    '--data-root',
    join(scratch, 'docker'),
    '--exec-root',
    join(scratch, 'docker-run'),
    '--pidfile',
    join(scratch, 'docker.pid'),
  ]
  const quiet = ['--iptables=false', '--ip6tables=false', '--bridge=none', '--ip-forward=false']
  const child = spawn(daemon, ['-H', socket, ...directories, ...quiet], { stdio: 'ignore' })
  const end = performance.now() + 30_000
  while (!existsSync(join(scratch, 'docker.sock'))) {
    if (performance.now() > end) throw new Error('dockerd did not start')
    execFileSync('sleep', ['0.2'])
  }
  const peer = engine('docker', program, ['-H', socket], ['--network=none'], scratch)
  return {
    ...peer,
    close() {
      peer.close()
      child.kill('SIGTERM')
    },
  }
})
