/** The table `[environment]`: what the environment contains. */
import * as z from 'zod'
import { BASES } from '../../core/environment.ts'
import { invalid } from '../../core/error.ts'
import { parseName } from '../../core/id.ts'
import { LONGEST_IMAGE_REF, parseImageRef } from '../../core/image-ref.ts'
import { nearest } from '../../util/nearest.ts'
import type { Language } from '../detect/finding.ts'
import { dockerfileValue } from './dockerfile-table.ts'
import { about, acceptedBy, keyedTable } from './values.ts'

/** All bases, and named bases that add languages to Debian. */
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
    `--base must be one of ${PROJECT_BASES.join(', ')}, not ${JSON.stringify(text)}`,
    near && `did you mean ${near}?`,
  )
}

const VERSION = /^[A-Za-z0-9<>=~^!*][A-Za-z0-9 .,_+*^~<>=!|/-]{0,63}$/
export const versionValue = z
  .string()
  .regex(VERSION, 'must be a version or a range of versions, like "22", "3.12" or ">=1.24"')
const languageVersion = z.union([versionValue, z.literal(false)]).meta({ kind: 'version or `false`' })

function language(name: string, example: string): typeof languageVersion {
  return languageVersion.meta(
    about(
      `The version of ${name}, or a range, like \`"${example}"\`; \`"latest"\` for the newest one, \`false\` or \`"none"\` for no ${name} even if it is detected.`,
      'as detected',
    ),
  )
}

/** In the order of the reference page. Languages without versions have no key. */
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
        'The C and C++ compilers, in the version of the base: `"latest"` installs them, `false` or `"none"` leaves them out even if they are detected.',
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
 * SECURITY: CF-02. An entry becomes part of its package manager's command line: the grammar excludes options,
 * paths and URLs. Each pattern is anchored and reads every character once.
 */
const APT = /^[a-z0-9][a-z0-9.+-]{0,126}[a-z0-9.+](?:=[A-Za-z0-9.+~:-]{1,100})?$/
const NPM =
  /^(?:@[a-z0-9][A-Za-z0-9._~-]{0,100}\/)?[A-Za-z0-9][A-Za-z0-9._~-]{0,100}(?:@[\^~]?[A-Za-z0-9][A-Za-z0-9.+_-]{0,63})?$/
const PIP =
  /^[A-Za-z0-9][A-Za-z0-9._-]{0,100}(?:\[[A-Za-z0-9,._-]{1,100}\])?(?:(?:===?|>=|<=|~=|!=|<|>)[A-Za-z0-9.*+!_-]{1,40}(?:,(?:===?|>=|<=|~=|!=|<|>)[A-Za-z0-9.*+!_-]{1,40}){0,7})?$/
const CARGO = /^[A-Za-z][A-Za-z0-9_-]{0,63}(?:@[0-9A-Za-z.+-]{1,64})?$/
const GO =
  /^[A-Za-z0-9][A-Za-z0-9-]{0,62}(?:\.[A-Za-z0-9][A-Za-z0-9-]{0,62}){1,8}(?:\/[A-Za-z0-9_~-][A-Za-z0-9._~-]{0,100}){1,16}(?:@[A-Za-z0-9.+-]{1,64})?$/

/** An attribute of nixpkgs or of its channel, or a flake and an attribute. `.` is the project's own flake. */
const NIX =
  /^(?:(?:nixpkgs(?:\/(?:nixos|nixpkgs)-[a-z0-9][a-z0-9.-]{0,40})?|\.|github:[A-Za-z0-9][A-Za-z0-9-]{0,38}\/[A-Za-z0-9._-]{1,100}(?:\/[A-Za-z0-9][A-Za-z0-9._-]{0,100})?)#)?[A-Za-z_][A-Za-z0-9_'-]{0,100}(?:\.[A-Za-z0-9_][A-Za-z0-9_'-]{0,100}){0,8}$/

function packages(grammar: RegExp, form: string): z.ZodArray<z.ZodString> {
  return z.array(z.string().max(256).regex(grammar, `must be ${form}`)).max(256)
}

const packageLists = {
  apt: packages(APT, 'the name of a Debian package, like "libpq-dev" or "curl=8.14.1-2"')
    .optional()
    .meta(about('Debian packages, each with an optional version: `"libpq-dev"`, `"curl=8.14.1-2"`.', 'none')),
  npm: packages(NPM, 'the name of an npm package, like "typescript" or "@biomejs/biome@2"')
    .optional()
    .meta(about('Packages that npm installs globally: `"typescript"`, `"@biomejs/biome@2"`.', 'none')),
  pip: packages(PIP, 'a pip requirement without options and URLs, like "ruff" or "httpx[http2]>=0.27,<1"')
    .optional()
    .meta(about('Python programs, as pip requirements: `"ruff"`, `"httpx[http2]>=0.27,<1"`.', 'none')),
  cargo: packages(CARGO, 'the name of a crate, like "cargo-nextest" or "just@1.40.0"')
    .optional()
    .meta(about('Programs that cargo builds: `"cargo-nextest"`, `"just@1.40.0"`.', 'none')),
  go: packages(GO, 'the path of a Go program, like "golang.org/x/tools/gopls@latest"')
    .optional()
    .meta(about('Go programs, by path: `"golang.org/x/tools/gopls@latest"`.', 'none')),
  nix: packages(
    NIX,
    'an attribute of nixpkgs or of a flake, like "ripgrep", "github:owner/repo#tool" or ".#default"',
  )
    .optional()
    .meta(
      about(
        'Packages that nix installs, where the base has nix: `"ripgrep"`, `"nixpkgs/nixos-24.11#jq"`, `".#default"` of the project’s own flake. Flakes reach only the hosts under `[network]` that the user approved.',
        'none',
      ),
    ),
}
export type PackageManager = keyof typeof packageLists
export const PACKAGE_MANAGERS = Object.keys(packageLists) as readonly PackageManager[]

const VARIABLE = /^[A-Za-z_][A-Za-z0-9_]{0,127}$/
export const variablesTable = keyedTable(
  z
    .string()
    .regex(VARIABLE, 'is not a valid variable name: use letters, digits and underscores, and no digit first')
    .refine(
      (name) => !/^AGENTPOD_/i.test(name),
      'is reserved: projects cannot set variables that start with AGENTPOD_',
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
    .superRefine(acceptedBy(parseName))
    .optional()
    .meta(about('The name of the environment in lists and logs.', 'the name of the directory')),
  base: z
    .enum(PROJECT_BASES)
    .optional()
    .meta(
      about(
        'What the environment starts from: `host` uses the tools of this machine, `debian` is a separate Debian, `image` is the container image that `image` names, and the others are Debian with one or more languages.',
        'as detected',
      ),
    ),
  suite: z
    .string()
    .regex(/^[a-z][a-z0-9-]{0,31}$/, 'must be the name of a Debian release, like "trixie"')
    .optional()
    .meta(
      about(
        'The Debian release, such as `"trixie"`, for every base except `host` and `image`.',
        'the release of this machine',
      ),
    ),
  image: z
    .string()
    .max(LONGEST_IMAGE_REF)
    .superRefine(acceptedBy(parseImageRef))
    .optional()
    .meta(
      about(
        'The container image that the environment starts from, like `"debian:12"` or `"ghcr.io/owner/name@sha256:..."`. The tools are those of the image. It needs the user’s approval, and a provider that supports images.',
        'none',
      ),
    ),
  dockerfile: dockerfileValue
    .optional()
    .meta(
      about(
        'The Dockerfile whose image the environment starts from: its path, or a table. It is built again when it or a file that it copies changes. It needs the user’s approval, as do the images that it names.',
        'none',
      ),
    ),
  user: z
    .string()
    .regex(/^[a-z_][a-z0-9_-]{0,31}$/, 'is not a valid user name')
    .optional()
    .meta(
      about(
        'The user that commands run as; `"root"` needs the same approval as `sudo`.',
        '`"user"`; in an image `"root"`',
      ),
    ),
  sudo: z
    .boolean()
    .optional()
    .meta(
      about(
        'Whether programs in the sandbox may become root there. It needs the user’s approval.',
        '`false`',
      ),
    ),
  languages: z
    .strictObject(languages)
    .optional()
    .meta(about('The languages and their versions; those that are not listed are detected.')),
  packages: z.strictObject(packageLists).optional().meta(about('Extra packages, by package manager.')),
  variables: variablesTable
    .optional()
    .meta(
      about(
        'Environment variables of every command and service. Secrets do not belong here: see `[secrets]`.',
      ),
    ),
})
