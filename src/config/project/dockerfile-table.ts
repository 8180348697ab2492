/** `dockerfile` in the table `[environment]`: a path, or a table with what `agentpod build -f` takes. */
import * as z from 'zod'
import { about, keyedTable, lineValue, pathValue } from './values.ts'

const MOST_ARGS = 64

/** SECURITY: CF-02. There are no secrets here: a project's file cannot ask a build for one. */
const dockerfileTable = z.strictObject({
  file: pathValue.optional().meta(about('The path of the Dockerfile.', '`"Dockerfile"`')),
  context: z
    .union([z.literal('.'), pathValue])
    .meta({ kind: 'path' })
    .optional()
    .meta(
      about(
        'The directory that `COPY` and `ADD` read from. Files that git ignores are not part of it.',
        '`"."`, the project',
      ),
    ),
  target: lineValue(128)
    .regex(/^[A-Za-z0-9][A-Za-z0-9_.-]*$/, 'must be the name of a stage')
    .optional()
    .meta(about('The stage to build.', 'the last one')),
  build_args: keyedTable(
    z
      .string()
      .regex(/^[A-Za-z_][A-Za-z0-9_]{0,127}$/, 'is not a valid name of an ARG: use letters, digits and _'),
    z
      .string()
      .max(16 * 1024)
      .refine((value) => !value.includes('\0'), 'has a NUL byte')
      .meta(about('The value, always a string.')),
    MOST_ARGS,
  )
    .optional()
    .meta(about('Values of `ARG` instructions.')),
})

export const dockerfileValue = z.union([pathValue, dockerfileTable]).meta({ kind: 'path or table' })

export interface DockerfileWish {
  /** Paths below the project; an empty context is the project itself. */
  readonly file: string
  readonly context: string
  readonly target?: string | undefined
  readonly args: Readonly<Record<string, string>>
  /** The images that the file names. Empty until the file is read. */
  readonly images: readonly string[]
}

export function dockerfileWish(value: z.infer<typeof dockerfileValue>): DockerfileWish {
  const {
    file = 'Dockerfile',
    context = '.',
    target,
    build_args: args = {},
  } = typeof value === 'string' ? { file: value } : value
  return {
    file,
    context: context === '.' ? '' : context,
    ...(target !== undefined && { target }),
    args,
    images: [],
  }
}
