/**
 * The keys of a compose file, as the Compose Specification has them. Scalars arrive as text. Keys that are
 * known but cannot be honoured are here too, so that they get a reason and not "unknown key".
 */
import * as z from 'zod'

const text = z.string().max(64 * 1024)
const word = z.string().min(1).max(4096)
const bool = z.enum(['true', 'false', 'True', 'False', 'TRUE', 'FALSE']).transform((one) => /^t/i.test(one))
const whole = z
  .string()
  .regex(/^\d{1,9}$/, 'must be a whole number')
  .transform(Number)
const number = z
  .string()
  .regex(/^\d{1,9}(?:\.\d{1,6})?$/, 'must be a number')
  .transform(Number)
const list = z.array(word).max(256)
const oneOrList = z.union([word, list]).transform((one) => [one].flat())
const command = z.union([z.string().max(16 * 1024), z.array(text).max(256)]).nullable()
/** A list of NAME=VALUE, or a table. A name without a value is null. */
const pairs = z.union([z.record(word, text.nullable()), z.array(word).max(1024)])
const anything = z.unknown()

const port = z.union([
  word,
  z.strictObject({
    name: word.optional(),
    target: whole,
    published: word.optional(),
    host_ip: word.optional(),
    protocol: z.enum(['tcp', 'udp']).optional(),
    app_protocol: word.optional(),
    mode: word.optional(),
  }),
])

const volume = z.union([
  word,
  z.strictObject({
    type: z.enum(['volume', 'bind', 'tmpfs', 'image', 'npipe', 'cluster']),
    source: word.optional(),
    target: word,
    read_only: bool.optional(),
    consistency: word.optional(),
    bind: anything.optional(),
    image: anything.optional(),
    volume: z.strictObject({ nocopy: bool.optional(), subpath: word.optional() }).optional(),
    tmpfs: z.strictObject({ size: word.optional(), mode: word.optional() }).nullable().optional(),
  }),
])

const extended = z.union([
  word.transform((service) => ({ service, file: undefined })),
  z.strictObject({ service: word, file: word.optional() }),
])

const included = z.union([
  word.transform((path) => ({ path: [path], project_directory: undefined, env_file: undefined })),
  z.strictObject({
    path: oneOrList,
    project_directory: word.optional(),
    env_file: oneOrList.optional(),
  }),
])

const dependency = z.strictObject({
  condition: z.enum(['service_started', 'service_healthy', 'service_completed_successfully']),
  restart: bool.optional(),
  required: bool.optional(),
})

const healthcheck = z.strictObject({
  test: z.union([text, z.array(text).max(256)]).optional(),
  interval: word.optional(),
  timeout: word.optional(),
  retries: whole.optional(),
  start_period: word.optional(),
  start_interval: word.optional(),
  disable: bool.optional(),
})

const build = z.union([
  word,
  z.strictObject({
    context: word.optional(),
    dockerfile: word.optional(),
    dockerfile_inline: text.optional(),
    args: pairs.optional(),
    target: word.optional(),
    cache_from: list.optional(),
    cache_to: list.optional(),
    labels: pairs.optional(),
    no_cache: bool.optional(),
    pull: bool.optional(),
    platforms: list.optional(),
    tags: list.optional(),
    network: word.optional(),
    shm_size: word.optional(),
    ssh: anything.optional(),
    secrets: anything.optional(),
    additional_contexts: anything.optional(),
    entitlements: anything.optional(),
    extra_hosts: anything.optional(),
    isolation: anything.optional(),
    privileged: anything.optional(),
    ulimits: anything.optional(),
  }),
])

const fileReference = z.union([
  word,
  z.strictObject({
    source: word,
    target: word.optional(),
    uid: word.optional(),
    gid: word.optional(),
    mode: word.optional(),
  }),
])

const resourceAmounts = z.strictObject({
  cpus: number.optional(),
  memory: word.optional(),
  pids: whole.optional(),
  devices: anything.optional(),
  generic_resources: anything.optional(),
})

export const serviceSchema = z.strictObject({
  image: word.optional(),
  build: build.optional(),
  command: command.optional(),
  entrypoint: command.optional(),
  environment: pairs.optional(),
  env_file: z
    .union([
      oneOrList,
      z
        .array(
          z.union([word, z.strictObject({ path: word, required: bool.optional(), format: word.optional() })]),
        )
        .max(64),
    ])
    .optional(),
  ports: z.array(port).max(64).optional(),
  expose: list.optional(),
  volumes: z.array(volume).max(64).optional(),
  tmpfs: oneOrList.optional(),
  depends_on: z.union([list, z.record(word, dependency)]).optional(),
  healthcheck: healthcheck.optional(),
  working_dir: word.optional(),
  user: word.optional(),
  profiles: list.optional(),
  restart: word.optional(),
  extra_hosts: z.union([list, z.record(word, z.union([word, list]))]).optional(),
  networks: z
    .union([
      list,
      z.record(
        word,
        z
          .strictObject({
            aliases: list.optional(),
            ipv4_address: word.optional(),
            ipv6_address: word.optional(),
            priority: word.optional(),
            mac_address: word.optional(),
            link_local_ips: list.optional(),
            driver_opts: anything.optional(),
            gw_priority: word.optional(),
          })
          .nullable(),
      ),
    ])
    .optional(),
  network_mode: word.optional(),
  configs: z.array(fileReference).max(64).optional(),
  secrets: z.array(fileReference).max(64).optional(),
  deploy: z
    .strictObject({
      replicas: whole.optional(),
      mode: word.optional(),
      endpoint_mode: word.optional(),
      labels: pairs.optional(),
      placement: anything.optional(),
      restart_policy: anything.optional(),
      rollback_config: anything.optional(),
      update_config: anything.optional(),
      resources: z
        .strictObject({ limits: resourceAmounts.optional(), reservations: resourceAmounts.optional() })
        .optional(),
    })
    .optional(),
  cpus: number.optional(),
  mem_limit: word.optional(),
  pids_limit: z
    .string()
    .regex(/^-1$|^\d{1,9}$/, 'must be a whole number')
    .transform(Number)
    .optional(),
  shm_size: word.optional(),
  scale: whole.optional(),
  init: bool.optional(),
  stop_signal: word.optional(),
  stop_grace_period: word.optional(),
  labels: pairs.optional(),
  hostname: word.optional(),
  domainname: word.optional(),
  container_name: word.optional(),
  platform: word.optional(),
  pull_policy: word.optional(),
  tty: bool.optional(),
  stdin_open: bool.optional(),
  read_only: bool.optional(),
  links: list.optional(),
  logging: anything.optional(),
  annotations: anything.optional(),
  attach: bool.optional(),
  develop: anything.optional(),
  dns: anything.optional(),
  dns_opt: anything.optional(),
  dns_search: anything.optional(),
  cap_drop: list.optional(),
  group_add: list.optional(),
  ulimits: anything.optional(),
  sysctls: anything.optional(),
  mem_reservation: word.optional(),
  mem_swappiness: word.optional(),
  memswap_limit: word.optional(),
  cpu_shares: word.optional(),
  cpu_quota: word.optional(),
  cpu_period: word.optional(),
  cpu_count: word.optional(),
  cpu_percent: word.optional(),
  cpuset: word.optional(),
  oom_kill_disable: bool.optional(),
  oom_score_adj: word.optional(),
  mac_address: word.optional(),
  extends: extended.optional(),
  // These would weaken the sandbox, or reach outside of it.
  privileged: bool.optional(),
  cap_add: list.optional(),
  devices: anything.optional(),
  device_cgroup_rules: anything.optional(),
  gpus: anything.optional(),
  security_opt: list.optional(),
  pid: word.optional(),
  ipc: word.optional(),
  uts: word.optional(),
  userns_mode: word.optional(),
  cgroup: word.optional(),
  cgroup_parent: word.optional(),
  runtime: word.optional(),
  volumes_from: list.optional(),
  external_links: list.optional(),
  credential_spec: anything.optional(),
  isolation: word.optional(),
  blkio_config: anything.optional(),
  storage_opt: anything.optional(),
  provider: anything.optional(),
  models: anything.optional(),
  post_start: anything.optional(),
  pre_stop: anything.optional(),
})
export type ServiceTable = z.infer<typeof serviceSchema>

const external = z.union([bool, z.strictObject({ name: word.optional() })])

const network = z
  .strictObject({
    name: word.optional(),
    external: external.optional(),
    internal: bool.optional(),
    attachable: bool.optional(),
    driver: word.optional(),
    driver_opts: anything.optional(),
    enable_ipv4: bool.optional(),
    enable_ipv6: bool.optional(),
    ipam: anything.optional(),
    labels: pairs.optional(),
  })
  .nullable()

const namedVolume = z
  .strictObject({
    name: word.optional(),
    external: external.optional(),
    driver: word.optional(),
    driver_opts: anything.optional(),
    labels: pairs.optional(),
  })
  .nullable()

const namedFile = z
  .strictObject({
    file: word.optional(),
    content: text.optional(),
    environment: word.optional(),
    external: external.optional(),
    name: word.optional(),
    labels: pairs.optional(),
    driver: word.optional(),
    driver_opts: anything.optional(),
    template_driver: word.optional(),
  })
  .nullable()

export const composeSchema = z.strictObject({
  version: word.optional(),
  name: word.optional(),
  services: z.record(word, serviceSchema).optional(),
  networks: z.record(word, network).nullable().optional(),
  volumes: z.record(word, namedVolume).nullable().optional(),
  configs: z.record(word, namedFile).nullable().optional(),
  secrets: z.record(word, namedFile).nullable().optional(),
  include: z.array(included).max(32).optional(),
  models: anything.optional(),
})
export type ComposeTable = z.infer<typeof composeSchema>
