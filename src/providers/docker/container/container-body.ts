/** The body of the request that creates a sandbox's container. */
import type { CreatePlan } from '../../../core/provider.ts'
import type { Resources } from '../../../core/resources.ts'
import { PODD_PATH, PROGRAMS_PATH, TOKEN_FILE } from './initial-files.ts'
import { seccompProfile } from './seccomp.ts'

const MIB = 1024 * 1024

/** The socket of podd, in the container's own network namespace. */
export const PODD_SOCKET = '@agentpod'
/** Where podd accepts connections that programs make to the outside. */
const DOOR_PORT = 61080
/**
 * How long podd waits to be configured, so that a server that dies during a create leaves nothing behind for
 * long.
 */
const WAIT_MS = 120_000
const RUN_BYTES = 64 * MIB
/** When the machine runs out of memory, the kernel kills sandboxes first. */
const OOM_SCORE = 100

/**
 * The capabilities that podd needs to run commands as their users, to end them, and to change the owner of
 * files. podd drops them for programs of ordinary users. Package managers have them when root builds the
 * environment.
 *
 * SECURITY: attack cases PR-01 and PR-02. None of them reaches outside the container: no SYS_ADMIN,
 * NET_ADMIN, NET_RAW, MKNOD, SYS_PTRACE.
 */
export const CAPABILITIES = ['CHOWN', 'DAC_OVERRIDE', 'FOWNER', 'FSETID', 'KILL', 'SETGID', 'SETUID']

/**
 * SECURITY: LK-17, PR-09 and PR-12. Docker's own list, and other kernel files that describe the machine: its
 * disks, modules, keys and devices. Docker has no allowlist for these, so an entry of a newer kernel is
 * visible until it is added here.
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
  /** The id of the image. */
  readonly image: string
  readonly labels: Readonly<Record<string, string>>
  /** The volume that contains podd. */
  readonly volume: string
  /** Undefined if the daemon may not set it. */
  readonly files: number | undefined
  /** Whether the storage driver can limit the container's disk usage. */
  readonly diskIsLimited: boolean
}

export function containerBody({ plan, image, labels, volume, files, diskIsLimited }: BodyOptions): object {
  const { resources } = plan
  return {
    Image: image,
    Hostname: plan.hostname,
    Entrypoint: [PODD_PATH],
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
    // A network namespace with only a loopback, made by the runtime alone: Docker's own setup of the network
    // `none` takes longer than the rest of the start.
    NetworkDisabled: true,
    StopTimeout: 1,
    HostConfig: {
      ...limits(resources, files),
      ...confinement(),
      Mounts: [
        {
          Type: 'volume',
          Source: volume,
          Target: PROGRAMS_PATH,
          ReadOnly: true,
          VolumeOptions: { NoCopy: true },
        },
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
