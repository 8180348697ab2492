/** What a Dockerfile asks for, as podimage read it: vertices, each after those that it needs. */
import * as z from 'zod'

/** Where podfiles puts the files of a commit, apart from those that its sandbox has. */
export const CHECKOUT = '/checkout'
/** The number of a vertex; `NOTHING` is the empty file system. */
export const NOTHING = -1
const number = z.number().int().min(NOTHING)
const text = z.string()

const owner = z.strictObject({ user: text.optional(), group: text.optional() })

const copy = z.strictObject({
  from: number,
  src: text,
  dest: text,
  owner: owner.optional(),
  mode: z.number(),
  modeText: text.optional(),
  followSymlink: z.boolean().optional(),
  dirContents: z.boolean().optional(),
  unpack: z.boolean().optional(),
  createDestPath: z.boolean().optional(),
  wildcard: z.boolean().optional(),
  emptyWildcard: z.boolean().optional(),
  replace: z.boolean().optional(),
  timestamp: z.number(),
  include: z.array(text).optional(),
  exclude: z.array(text).optional(),
  required: z.array(text).optional(),
})

const action = z.strictObject({
  copy: copy.optional(),
  mkdir: z
    .strictObject({
      path: text,
      mode: z.number(),
      parents: z.boolean().optional(),
      owner: owner.optional(),
      timestamp: z.number(),
    })
    .optional(),
  mkfile: z
    .strictObject({
      path: text,
      mode: z.number(),
      data: text.nullable(),
      owner: owner.optional(),
      timestamp: z.number(),
    })
    .optional(),
  rm: z
    .strictObject({ path: text, allowNotFound: z.boolean().optional(), wildcard: z.boolean().optional() })
    .optional(),
  symlink: z
    .strictObject({ target: text, path: text, owner: owner.optional(), timestamp: z.number() })
    .optional(),
})

const mount = z.strictObject({
  kind: z.enum(['bind', 'cache', 'tmpfs', 'secret']),
  path: text,
  from: number,
  selector: text.optional(),
  readonly: z.boolean().optional(),
  id: text.optional(),
  sharing: text.optional(),
  uid: z.number().optional(),
  gid: z.number().optional(),
  mode: z.number().optional(),
  optional: z.boolean().optional(),
  size: z.number().optional(),
})

const exec = z.strictObject({
  root: number,
  args: z.array(text).min(1),
  env: z.array(text).optional(),
  cwd: text,
  user: text.optional(),
  network: z.literal('none').optional(),
  mounts: z.array(mount).optional(),
  secrets: z.array(z.strictObject({ id: text, name: text, optional: z.boolean().optional() })).optional(),
})

const http = z.strictObject({ url: text, name: text, checksum: text.optional(), mode: z.number() })

const git = z.strictObject({
  remote: text,
  ref: text.optional(),
  subdir: text.optional(),
  checksum: text.optional(),
  keepGitDir: z.boolean().optional(),
  submodules: z.boolean().optional(),
})

const vertex = z.strictObject({
  title: text,
  line: z.number(),
  noCache: z.boolean().optional(),
  image: z.strictObject({ ref: text }).optional(),
  local: z.strictObject({ name: text }).optional(),
  http: http.optional(),
  git: git.optional(),
  exec: exec.optional(),
  file: z.strictObject({ root: number, actions: z.array(action).min(1) }).optional(),
})

const warning = z.strictObject({ rule: text, text: text, url: text.optional(), line: z.number() })

const graph = z.strictObject({
  vertices: z.array(vertex),
  result: number,
  /** base64 */
  config: text,
  warnings: z.array(warning),
})

export const frontEndAnswer = z.union([
  z.strictObject({ needs: z.array(text).min(1) }),
  z.strictObject({ graph }),
])

export const contextAnswer = z.strictObject({
  copies: z.array(z.strictObject({ digest: text, files: z.record(text, text) })),
})

export type Graph = z.infer<typeof graph>
export type Vertex = z.infer<typeof vertex>
export type Exec = z.infer<typeof exec>
export type ExecMount = z.infer<typeof mount>
export type FileAction = z.infer<typeof action>
export type LintWarning = z.infer<typeof warning>
/** What one copy or mount reads of the build context. */
export type Selected = z.infer<typeof contextAnswer>['copies'][number]

/** The vertices that a vertex needs, the one whose files it changes first. */
export function inputsOf({ exec: run, file }: Vertex): number[] {
  const all = run
    ? [run.root, ...(run.mounts ?? []).map(({ from }) => from)]
    : file
      ? [file.root, ...file.actions.flatMap(({ copy: one }) => (one ? [one.from] : []))]
      : []
  return [...new Set(all)].filter((one) => one !== NOTHING)
}

/** Whether it makes a layer. Images and the context are there already. */
export function isStep(one: Vertex): boolean {
  return !one.image && !one.local
}
