/** What a container of ours is, in the daemon's words. */
import type { CreatePlan } from '../../core/provider.ts'
import type { Resources } from '../../core/resources.ts'
import { PODD, PROGRAMS, TOKEN_FILE } from './furnish.ts'
import { seccompProfile } from './seccomp.ts'

const MIB = 1024 * 1024

/** The socket of podd, in the container's own network namespace. */
export const PODD_SOCKET = '@agentpod'
/** Where podd takes connections that want to leave. */
const DOOR_PORT = 61080
/** How long podd stays when nobody says what the sandbox is: a server that dies in a create leaves nothing for long. */
const WAIT_MS = 120_000
const RUN_BYTES = 64 * MIB
/** When the machine runs out of memory, the kernel takes sandboxes first. */
const OOM_SCORE = 100

/**
 * What podd needs to run commands as their users, to end them and to give files to any user. A program of an ordinary user has none of
 * it: podd sees to that. Where the environment is built by root, package managers have it too.
 *
 * SECURITY: attack cases PR-01 and PR-02. Nothing here reaches outside the container: no SYS_ADMIN, NET_ADMIN, NET_RAW, MKNOD, SYS_PTRACE.
 */
export const CAPABILITIES = ['CHOWN', 'DAC_OVERRIDE', 'FOWNER', 'FSETID', 'KILL', 'SETGID', 'SETUID']

/**
 * SECURITY: LK-17, PR-09 and PR-12. Docker's own list and what else of the kernel's files describes the machine: its disks, modules, keys and
 * devices. Docker cannot list what to show, so an entry of a newer kernel is seen until it is here.
 */
export const MASKED_PATHS = [
  ...[
    '/proc/acpi',
    '/proc/asound',
    '/proc/bootconfig',
    '/proc/buddyinfo',
    '/proc/bus',
    '/proc/cgroups',
    '/proc/cmdline',
  ],
  ...[
    '/proc/config.gz',
    '/proc/consoles',
    '/proc/crypto',
    '/proc/devices',
    '/proc/diskstats',
    '/proc/dma',
    '/proc/driver',
  ],
  ...[
    '/proc/dynamic_debug',
    '/proc/execdomains',
    '/proc/fb',
    '/proc/fs',
    '/proc/interrupts',
    '/proc/iomem',
    '/proc/ioports',
  ],
  ...[
    '/proc/irq',
    '/proc/kallsyms',
    '/proc/kcore',
    '/proc/key-users',
    '/proc/keys',
    '/proc/kmsg',
    '/proc/kpagecgroup',
  ],
  ...[
    '/proc/kpagecount',
    '/proc/kpageflags',
    '/proc/latency_stats',
    '/proc/locks',
    '/proc/mdstat',
    '/proc/misc',
    '/proc/modules',
  ],
  ...[
    '/proc/mpt',
    '/proc/mtd',
    '/proc/mtrr',
    '/proc/pagetypeinfo',
    '/proc/partitions',
    '/proc/pressure',
    '/proc/sched_debug',
  ],
  ...[
    '/proc/schedstat',
    '/proc/scsi',
    '/proc/slabinfo',
    '/proc/softirqs',
    '/proc/swaps',
    '/proc/sysrq-trigger',
    '/proc/timer_list',
  ],
  ...['/proc/timer_stats', '/proc/tty', '/proc/vmallocinfo', '/proc/zoneinfo'],
  ...[
    '/sys/block',
    '/sys/bus',
    '/sys/class/block',
    '/sys/dev',
    '/sys/devices/virtual/block',
    '/sys/devices/virtual/powercap',
  ],
  ...[
    '/sys/firmware',
    '/sys/fs',
    '/sys/hypervisor',
    '/sys/kernel/debug',
    '/sys/kernel/security',
    '/sys/kernel/slab',
    '/sys/kernel/tracing',
  ],
  ...['/sys/kernel/notes', '/sys/kernel/vmcoreinfo', '/sys/module', '/sys/power'],
]
export const READONLY_PATHS = ['/proc/sys']

export interface BodyOptions {
  readonly plan: CreatePlan
  /** Its id. */
  readonly image: string
  readonly labels: Readonly<Record<string, string>>
  /** The volume that podd lies in. */
  readonly volume: string
  /** Left out where the daemon may not set it. */
  readonly files: number | undefined
  /** Whether the storage driver limits what the container writes. */
  readonly diskIsLimited: boolean
}

export function containerBody({ plan, image, labels, volume, files, diskIsLimited }: BodyOptions): object {
  const { resources } = plan
  return {
    Image: image,
    Hostname: plan.hostname,
    Entrypoint: [PODD],
    Cmd: [
      '--streams',
      PODD_SOCKET,
      '--token-file',
      TOKEN_FILE,
      '--door',
      String(DOOR_PORT),
      '--wait-ms',
      String(WAIT_MS),
    ],
    User: '0:0',
    WorkingDir: '/',
    Labels: labels,
    Healthcheck: { Test: ['NONE'] },
    AttachStdin: false,
    AttachStdout: false,
    AttachStderr: false,
    OpenStdin: false,
    Tty: false,
    // A network namespace with nothing but its loopback, made by the runtime alone: Docker's own bookkeeping for the network `none` takes
    // longer than everything else of a start.
    NetworkDisabled: true,
    StopTimeout: 1,
    HostConfig: {
      ...limits(resources, files),
      ...confinement(),
      Mounts: [
        { Type: 'volume', Source: volume, Target: PROGRAMS, ReadOnly: true, VolumeOptions: { NoCopy: true } },
      ],
      Tmpfs: {
        '/tmp': `rw,exec,nosuid,nodev,mode=1777,size=${resources.tmpMib * MIB}`,
        '/run': `rw,exec,nosuid,nodev,mode=755,size=${RUN_BYTES}`,
      },
      LogConfig: { Type: 'none' },
      RestartPolicy: { Name: 'no' },
      AutoRemove: false,
      Init: false,
      ...(diskIsLimited && { StorageOpt: { size: `${resources.diskMib}M` } }),
    },
  }
}

function limits(resources: Resources, files: number | undefined): object {
  const memory = resources.memoryMib * MIB
  return {
    Memory: memory,
    MemorySwap: memory + resources.swapMib * MIB,
    NanoCpus: Math.round(resources.cpus * 1e9),
    PidsLimit: resources.pids,
    ShmSize: resources.shmMib * MIB,
    OomScoreAdj: OOM_SCORE,
    Ulimits: [
      { Name: 'core', Soft: 0, Hard: 0 },
      ...(files === undefined ? [] : [{ Name: 'nofile', Soft: files, Hard: files }]),
    ],
  }
}

function confinement(): object {
  return {
    NetworkMode: 'none',
    IpcMode: 'private',
    CgroupnsMode: 'private',
    Privileged: false,
    PublishAllPorts: false,
    CapDrop: ['ALL'],
    CapAdd: CAPABILITIES,
    SecurityOpt: ['no-new-privileges:true', `seccomp=${JSON.stringify(seccompProfile())}`],
    MaskedPaths: MASKED_PATHS,
    ReadonlyPaths: READONLY_PATHS,
  }
}
