/** Keys of compose files that a sandbox does not honour. Each is refused, or noted with the reason. */
import type { Path } from '../toml/positions.ts'
import { printable } from '../toml/problem.ts'
import type { ComposeFile } from './compose-file.ts'
import type { ServiceTable } from './schema.ts'

type Notes = Pick<ComposeFile, 'notes'>
type Reasons = Readonly<Record<string, string>>

const ISOLATION = 'the isolation of a sandbox cannot be changed'
const NO_DEVICES = 'a sandbox has no devices of the machine'
const COMMANDS = 'put the commands into the command of the service'

const WEAKENING: Reasons = {
  cap_add: 'a sandbox has no further capabilities',
  devices: NO_DEVICES,
  device_cgroup_rules: NO_DEVICES,
  gpus: NO_DEVICES,
  userns_mode: ISOLATION,
  cgroup: ISOLATION,
  cgroup_parent: ISOLATION,
  runtime: ISOLATION,
  isolation: ISOLATION,
  volumes_from: 'name the volumes in this service as well',
  external_links: 'only services of this file are reachable',
  credential_spec: 'it is for Windows',
  provider: 'only containers run in sandboxes',
  post_start: COMMANDS,
  pre_stop: COMMANDS,
}

/** SECURITY: CF-02. What would reach outside of the sandbox is refused, never ignored. */
export function refuseWeakening(
  { remarks }: Pick<ComposeFile, 'remarks'>,
  at: Path,
  table: ServiceTable,
): void {
  const refuse = (path: Path, hint: string): void =>
    void remarks.push({
      path: [...at, ...path],
      isKey: true,
      message: 'is not supported in a sandbox',
      hint,
      reason: 'compose.unsupported',
    })
  if (table.privileged) refuse(['privileged'], 'a sandbox is never privileged; remove the key')
  const mode = table.network_mode
  if (mode !== undefined && !['bridge', 'none', 'default'].includes(mode))
    refuse(['network_mode'], 'services reach each other by name; remove the key')
  for (const key of ['pid', 'ipc', 'uts'] as const)
    if (table[key] !== undefined && !['private', 'shareable', 'none'].includes(table[key]))
      refuse([key], 'a sandbox has its own namespaces; remove the key')
  if (table.security_opt?.some((one) => !STRICTER.test(one))) refuse(['security_opt'], ISOLATION)
  for (const [key, hint] of Object.entries(WEAKENING))
    if (Object.hasOwn(table, key) && table[key as keyof ServiceTable] !== undefined) refuse([key], hint)
  const { limits, reservations } = table.deploy?.resources ?? {}
  for (const [key, amounts] of Object.entries({ limits, reservations }))
    for (const kind of ['devices', 'generic_resources'] as const)
      if (amounts?.[kind] !== undefined) refuse(['deploy', 'resources', key, kind], NO_DEVICES)
  if (typeof table.build === 'object' && !BUILD_NETWORKS.includes(table.build.network ?? 'default'))
    refuse(['build', 'network'], 'a build reaches the hosts that the project may reach; remove the key')
  const copies = table.scale ?? table.deploy?.replicas ?? 1
  if (copies !== 1)
    refuse(table.scale === undefined ? ['deploy', 'replicas'] : ['scale'], 'a service runs once in a group')
}

const BUILD_NETWORKS = ['default', 'none']
/** Options that every sandbox has anyway. */
const STRICTER = /^no-new-privileges(?:[:=]true)?$/

const PROCESSORS = 'only the number of processors is limited'
const NAMES = 'names are resolved outside of the sandbox'
const TERMINAL = 'services run without a terminal'
const NO_SWAP = 'a sandbox has no swap of its own'
const MEMORY = 'a sandbox ends processes that use too much memory'
const LABELS = 'labels are for other programs of Docker'
const CLUSTER = 'a group runs on one machine'

const UNUSED: Reasons = {
  restart: 'a service that ends is not started again',
  logging: 'output is kept by AgentPod',
  labels: LABELS,
  annotations: LABELS,
  attach: 'output is kept by AgentPod',
  tty: TERMINAL,
  stdin_open: TERMINAL,
  dns: NAMES,
  dns_opt: NAMES,
  dns_search: NAMES,
  domainname: 'members are reached by their names alone',
  ulimits: 'limits of files and processes are those of the sandbox',
  sysctls: 'kernel settings are those of the machine',
  platform: 'images for this machine are used',
  pull_policy: 'an image is pulled when it is first used',
  develop: '`agentpod dev --sync` watches the project',
  extra_hosts: 'hosts outside are reached by their own names and rules',
  read_only: 'the files of a sandbox can be written, and end with it',
  mac_address: 'a sandbox has no network card',
  cap_drop: 'a sandbox has few capabilities already',
  security_opt: 'every sandbox has no-new-privileges',
  group_add: 'the groups of an account are those in its image',
  mem_reservation: 'only limits apply',
  shm_size: 'the size is that of the sandbox',
  cpuset: PROCESSORS,
  cpu_shares: PROCESSORS,
  cpu_quota: PROCESSORS,
  cpu_period: PROCESSORS,
  cpu_count: PROCESSORS,
  cpu_percent: PROCESSORS,
  oom_kill_disable: MEMORY,
  oom_score_adj: MEMORY,
  mem_swappiness: NO_SWAP,
  memswap_limit: NO_SWAP,
  blkio_config: 'disks are shared fairly by the machine',
  storage_opt: 'the disk of a sandbox has its own limit',
  models: 'models are reached by their hosts',
}

const DEPLOY: Reasons = {
  mode: CLUSTER,
  endpoint_mode: CLUSTER,
  placement: CLUSTER,
  rollback_config: CLUSTER,
  update_config: CLUSTER,
  restart_policy: UNUSED['restart'] ?? '',
  labels: LABELS,
}

const BUILD: Reasons = {
  cache_from: 'steps are cached by AgentPod',
  cache_to: 'steps are cached by AgentPod',
  no_cache: 'steps are cached by AgentPod',
  pull: 'images are pulled when they are first used',
  labels: LABELS,
  platforms: 'the image is for this machine',
  tags: 'the image has a name of the project',
  network: 'a build reaches the hosts that the project may reach',
  shm_size: 'the size is that of the sandbox',
  extra_hosts: UNUSED['extra_hosts'] ?? '',
  isolation: 'it is for Windows',
  ulimits: UNUSED['ulimits'] ?? '',
}

const PORT: Reasons = {
  name: 'it is only a label',
  app_protocol: 'it is only a label',
  host_ip: 'ports are forwarded to 127.0.0.1',
  mode: CLUSTER,
}

const MOUNT: Reasons = {
  consistency: 'it is for other systems',
  bind: 'files are copied, not mounted',
  volume: 'the whole volume is mounted, empty when it is new',
}

const NETWORK: Reasons = {
  ipv4_address: 'members have names and no addresses',
  ipv6_address: 'members have names and no addresses',
  link_local_ips: 'members have names and no addresses',
  mac_address: 'a sandbox has no network card',
  priority: 'members reach each other through AgentPod',
  gw_priority: 'members reach each other through AgentPod',
  driver_opts: 'members reach each other through AgentPod',
}

const FILE: Reasons = {
  uid: 'the file belongs to root, and everyone inside can read it',
  gid: 'the file belongs to root, and everyone inside can read it',
  mode: 'the file belongs to root, and everyone inside can read it',
}

function noteKeys({ notes }: Notes, at: Path, table: unknown, reasons: Reasons): void {
  if (typeof table !== 'object' || table === null) return
  for (const [key, why] of Object.entries(reasons)) {
    const value = (Object.hasOwn(table, key) ? (table as Record<string, unknown>)[key] : undefined) ?? false
    if (value !== false && !(key === 'restart' && value === 'no'))
      notes.push({ path: [...at, key], said: `${key} is not used: ${why}` })
  }
}

export function noteUnused(ctx: Notes, at: Path, table: ServiceTable): void {
  noteKeys(ctx, at, table, UNUSED)
  noteKeys(ctx, [...at, 'deploy'], table.deploy, DEPLOY)
  noteKeys(ctx, [...at, 'deploy', 'resources'], table.deploy?.resources, {
    reservations: 'only limits apply',
  })
  for (const [n, one] of (table.ports ?? []).entries()) noteKeys(ctx, [...at, 'ports', n], one, PORT)
  for (const [n, one] of (table.volumes ?? []).entries()) {
    noteKeys(ctx, [...at, 'volumes', n], one, MOUNT)
    if (typeof one === 'string') noteMountOptions(ctx, [...at, 'volumes', n], one)
  }
  for (const kind of ['configs', 'secrets'] as const)
    for (const [n, one] of (table[kind] ?? []).entries()) noteKeys(ctx, [...at, kind, n], one, FILE)
  for (const [n, one] of (table.env_file ?? []).entries())
    noteKeys(ctx, [...at, 'env_file', n], one, { format: 'values are read as in .env files' })
  noteKeys(ctx, [...at, 'healthcheck'], table.healthcheck, {
    start_interval: 'the check is repeated until it succeeds',
  })
  for (const [name, one] of Object.entries(table.depends_on ?? {}))
    noteKeys(ctx, [...at, 'depends_on', name], one, { restart: 'services are not started again' })
  if (!Array.isArray(table.networks))
    for (const [name, one] of Object.entries(table.networks ?? {}))
      noteKeys(ctx, [...at, 'networks', name], one, NETWORK)
  if (table.network_mode === 'none')
    ctx.notes.push({
      path: [...at, 'network_mode'],
      said: 'network_mode is not used: other members of the group reach the service, and it reaches them',
    })
}

export function noteUnusedBuild(ctx: Notes, at: Path, build: object): void {
  noteKeys(ctx, at, build, BUILD)
}

/** Options of the short form that say nothing about a copy. */
const PLAIN_OPTION = /^(?:ro|rw|z|Z|cached|delegated|consistent|)$/

function noteMountOptions({ notes }: Notes, path: Path, mount: string): void {
  const others = (mount.split(':')[2] ?? '').split(',').filter((option) => !PLAIN_OPTION.test(option))
  if (others.length > 0)
    notes.push({ path, said: `${printable(others.join(','))} is not used: ${MOUNT['bind']}` })
}

const NAMED_NETWORK: Reasons = {
  name: 'a group has no shared network',
  external: 'services outside of the group are not reached',
  internal: 'services other than this sandbox reach no host outside in any case',
  attachable: 'a group has no shared network',
  driver: 'a group has no shared network',
  driver_opts: 'a group has no shared network',
  enable_ipv4: 'a group has no shared network',
  enable_ipv6: 'a group has no shared network',
  ipam: 'members have names and no addresses',
  labels: LABELS,
}

const NAMED_VOLUME: Reasons = {
  name: 'the volume has a name of the project',
  driver: 'a volume is a directory of this machine',
  driver_opts: 'a volume is a directory of this machine',
  labels: LABELS,
}

const NAMED_FILE: Reasons = {
  name: 'the file has no name outside',
  labels: LABELS,
  driver: 'the file is copied into the service',
  driver_opts: 'the file is copied into the service',
  template_driver: 'the file is copied as it is',
}

/** Keys at the top of a file. */
export function noteUnusedTop(ctx: ComposeFile): void {
  const { table, remarks } = ctx
  if (table.models !== undefined)
    remarks.push({
      path: ['models'],
      isKey: true,
      message: 'is not supported',
      hint: 'models are reached by their hosts; remove the key',
      reason: 'compose.unsupported',
    })
  const each = (kind: 'networks' | 'volumes' | 'configs' | 'secrets', reasons: Reasons): void => {
    for (const [name, one] of Object.entries(table[kind] ?? {})) noteKeys(ctx, [kind, name], one, reasons)
  }
  each('networks', NAMED_NETWORK)
  each('volumes', NAMED_VOLUME)
  each('configs', NAMED_FILE)
  each('secrets', NAMED_FILE)
}
