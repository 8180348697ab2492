/** The table `[environment]`: what must be inside. */
import { z } from 'zod'
import { BASES } from '../../core/environment.ts'
import { invalid } from '../../core/error.ts'
import { parseName } from '../../core/id.ts'
import { LONGEST_IMAGE_REF, parseImageRef } from '../../core/image-ref.ts'
import { nearest } from '../../util/nearest.ts'
import type { Language } from '../detect/finding.ts'
import { about, table, taken } from './values.ts'

/** The bases there are, and recipes of ours that put languages on Debian. */
export const PROJECT_BASES = [
  ...BASES,
  'js',
  'python',
  'go',
  'rust',
  'java',
  'fullstack',
  'polyglot',
] as const
export type ProjectBase = (typeof PROJECT_BASES)[number]

export function parseProjectBase(text: string): ProjectBase {
  const known = PROJECT_BASES.find((base) => base === text)
  if (known) return known
  const near = nearest(text, PROJECT_BASES)
  throw invalid(
    'option.base',
    `--base is one of ${PROJECT_BASES.join(', ')}, not ${JSON.stringify(text)}`,
    near && `did you mean ${near}?`,
  )
}

const VERSION = /^[A-Za-z0-9<>=~^!*][A-Za-z0-9 .,_+*^~<>=!|/-]{0,63}$/
export const version = z
  .string()
  .regex(VERSION, 'must be a version or a range of versions, like "22", "3.12" or ">=1.24"')
const languageVersion = z.union([version, z.literal(false)]).meta({ kind: 'version or `false`' })

function language(name: string, example: string): typeof languageVersion {
  return languageVersion.meta(
    about(
      `The version of ${name}, or a range, like \`"${example}"\`; \`"latest"\` for the newest there is, \`false\` or \`"none"\` for no ${name} even where it is detected.`,
      'as detected',
    ),
  )
}

/** In the order of the reference page. Languages without versions of their own have no key. */
const languages = {
  node: language('Node.js', '22').optional(),
  python: language('Python', '3.12').optional(),
  go: language('Go', '1.24').optional(),
  rust: language('Rust', '1.85').optional(),
  java: language('Java', '21').optional(),
  kotlin: language('Kotlin', '2.1').optional(),
  c: z
    .union([z.literal('latest'), z.literal('none'), z.literal(false)])
    .meta({ kind: '`"latest"`, `"none"` or `false`' })
    .meta(
      about(
        'The compilers of C and C++, which have the version of the base: `"latest"` puts them in, `false` or `"none"` leaves them out even where they are detected.',
        'as detected',
      ),
    )
    .optional(),
  ruby: language('Ruby', '3.3').optional(),
  php: language('PHP', '8.3').optional(),
  deno: language('Deno', '2').optional(),
  bun: language('Bun', '1.2').optional(),
  dotnet: language('.NET', '9').optional(),
  elixir: language('Elixir', '1.18').optional(),
} satisfies Partial<Record<Language, z.ZodType>>
export type ProjectLanguage = keyof typeof languages
export const PROJECT_LANGUAGES = Object.keys(languages) as readonly ProjectLanguage[]

/**
 * SECURITY: CF-02. An entry ends up in the command line of its package manager: by its grammar it can be no option, no path and no address.
 * Each pattern is anchored and reads every character once.
 */
const APT = /^[a-z0-9][a-z0-9.+-]{0,126}[a-z0-9.+](?:=[A-Za-z0-9.+~:-]{1,100})?$/
const NPM =
  /^(?:@[a-z0-9][A-Za-z0-9._~-]{0,100}\/)?[A-Za-z0-9][A-Za-z0-9._~-]{0,100}(?:@[\^~]?[A-Za-z0-9][A-Za-z0-9.+_-]{0,63})?$/
const PIP =
  /^[A-Za-z0-9][A-Za-z0-9._-]{0,100}(?:\[[A-Za-z0-9,._-]{1,100}\])?(?:(?:===?|>=|<=|~=|!=|<|>)[A-Za-z0-9.*+!_-]{1,40}(?:,(?:===?|>=|<=|~=|!=|<|>)[A-Za-z0-9.*+!_-]{1,40}){0,7})?$/
const CARGO = /^[A-Za-z][A-Za-z0-9_-]{0,63}(?:@[0-9A-Za-z.+-]{1,64})?$/
const GO =
  /^[A-Za-z0-9][A-Za-z0-9-]{0,62}(?:\.[A-Za-z0-9][A-Za-z0-9-]{0,62}){1,8}(?:\/[A-Za-z0-9_~-][A-Za-z0-9._~-]{0,100}){1,16}(?:@[A-Za-z0-9.+-]{1,64})?$/

function packages(grammar: RegExp, form: string): z.ZodArray<z.ZodString> {
  return z.array(z.string().max(256).regex(grammar, `must be ${form}`)).max(256)
}

const packageLists = {
  apt: packages(APT, 'the name of a Debian package, like "libpq-dev" or "curl=8.14.1-2"')
    .optional()
    .meta(
      about(
        'Packages of Debian, each with a version where you like: `"libpq-dev"`, `"curl=8.14.1-2"`.',
        'none',
      ),
    ),
  npm: packages(NPM, 'the name of a package of npm, like "typescript" or "@biomejs/biome@2"')
    .optional()
    .meta(
      about(
        'Packages of npm that are installed for everybody inside: `"typescript"`, `"@biomejs/biome@2"`.',
        'none',
      ),
    ),
  pip: packages(
    PIP,
    'a requirement of pip without options and addresses, like "ruff" or "httpx[http2]>=0.27,<1"',
  )
    .optional()
    .meta(about('Programs of Python, as requirements: `"ruff"`, `"httpx[http2]>=0.27,<1"`.', 'none')),
  cargo: packages(CARGO, 'the name of a crate, like "cargo-nextest" or "just@1.40.0"')
    .optional()
    .meta(about('Programs that cargo builds: `"cargo-nextest"`, `"just@1.40.0"`.', 'none')),
  go: packages(GO, 'the path of a Go program, like "golang.org/x/tools/gopls@latest"')
    .optional()
    .meta(about('Programs that Go builds, by path: `"golang.org/x/tools/gopls@latest"`.', 'none')),
}
export type PackageManager = keyof typeof packageLists
export const PACKAGE_MANAGERS = Object.keys(packageLists) as readonly PackageManager[]

const VARIABLE = /^[A-Za-z_][A-Za-z0-9_]{0,127}$/
export const variables = table(
  z
    .string()
    .regex(VARIABLE, 'is not the name of a variable: letters, digits and underscores, no digit first')
    .refine(
      (name) => !/^AGENTPOD_/i.test(name),
      'is ours: names that begin with AGENTPOD_ are not for projects',
    ),
  z
    .string()
    .max(32 * 1024)
    .refine((value) => !value.includes('\0'), 'has a NUL byte')
    .meta(about('The value, always a string.')),
  256,
)

export const environmentTable = z.strictObject({
  name: z
    .string()
    .superRefine(taken(parseName))
    .optional()
    .meta(about('What the environment is called in lists and logs.', 'the name of the directory')),
  base: z
    .enum(PROJECT_BASES)
    .optional()
    .meta(
      about(
        'What everything else is put on: `host` shows the tools of this machine, `debian` is a Debian of its own, `image` is the container image that `image` names, and the others are a Debian with languages on it, of which `fullstack` and `polyglot` have several.',
        'as detected',
      ),
    ),
  suite: z
    .string()
    .regex(/^[a-z][a-z0-9-]{0,31}$/, 'must be a release of Debian by its name, like "trixie"')
    .optional()
    .meta(
      about(
        'The release of Debian, by its name, for every base but `host` and `image`: `"trixie"`.',
        'the one of this machine',
      ),
    ),
  image: z
    .string()
    .max(LONGEST_IMAGE_REF)
    .superRefine(taken(parseImageRef))
    .optional()
    .meta(
      about(
        'The container image that everything is put on, like `"debian:12"` or `"ghcr.io/owner/name@sha256:..."`. The tools are the image’s own: nothing is installed from packages of Debian. It is asked for before it holds, and needs a provider that takes images.',
        'none',
      ),
    ),
  user: z
    .string()
    .regex(/^[a-z_][a-z0-9_-]{0,31}$/, 'is not the name of a user')
    .optional()
    .meta(
      about(
        'Who commands run as inside; `"root"` needs the same grant as `sudo`.',
        '`"user"`; in an image `"root"`',
      ),
    ),
  sudo: z
    .boolean()
    .optional()
    .meta(
      about('Whether programs inside may become root inside; it is asked for before it holds.', '`false`'),
    ),
  languages: z
    .strictObject(languages)
    .optional()
    .meta(about('Which languages are inside, each with its version; what is not named here is as detected.')),
  packages: z
    .strictObject(packageLists)
    .optional()
    .meta(about('What is installed beside the languages, for each package manager.')),
  variables: variables
    .optional()
    .meta(
      about(
        'Variables for every command inside, services included. Secrets do not belong here: see `[secrets]`.',
      ),
    ),
})
