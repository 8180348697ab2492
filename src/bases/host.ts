/** The base `host`: the tools of this machine, read-only. Nothing is installed or built. */
import { AgentPodError } from '../core/error.ts'
import type { BaseWish } from '../core/recipe.ts'
import type { BaseContext, BaseKind, Machine, ReadyBase } from './base-kind.ts'
import { PACKAGE_TOOLS, TOOL_PACKAGES } from './debian-packages.ts'

const WHERE = 'this machine'

export const host: BaseKind = {
  name: 'host',
  takesImage: false,
  isReadyAtOnce: true,
  ready,
  identity: ({ tools = {} }) => tools,
  recipe: (_base, used) => ({ name: 'host', tools: used }),
  releases: [],
  variants: () => [{ base: 'host' }],
  lockRefusal: {
    reason: 'lock.host',
    message: 'the base host cannot be locked: it is this machine and changes when this machine is updated',
    hint: 'use a base that can be locked: [environment] base = "debian"',
  },

  texts: {
    label: () => WHERE,
    locationLabel: () => 'on this machine',
    detail: () => undefined,
    aboutPackage({ isThere, isOptional }) {
      if (isThere) return 'this machine has it'
      return isOptional ? 'left out: only CI installs it' : 'may be missing on this machine'
    },
    missingServiceHint:
      '; Debian has it: install it on this machine, or set base = "debian" under [environment] and use versions that Debian has',
  },

  tools: {
    packageManager: undefined,
    ownPackageManager: undefined,
    hasKnownTools: true,
    languages: (_base, machine, language) =>
      machine.host
        .filter(({ name }) => name === toolOf(language))
        .map(({ version, directory }) => ({ kind: 'there', version, directory, where: WHERE })),
    server(_base, machine, _name, tool) {
      const found = machine.host.find((one) => one.name === tool)
      return found && { version: found.version, packages: [] }
    },
    tool(machine, name, fits) {
      const found = machine.host.find((one) => one.name === name && fits(one.version))
      return found && { version: known(found.version), directory: found.directory }
    },
    isPackaged: (_base, tool) => Object.hasOwn(TOOL_PACKAGES, tool),
    hasPackage,
    lacking: (_base, machine, { packages, tools }) => ({
      packages: packages.filter((name) => !hasPackage(machine, name)),
      tools: tools.filter((name) => Object.hasOwn(TOOL_PACKAGES, name) && !hasTool(machine, name)),
    }),
  },

  system: {
    user: 'user',
    hasProfile: false,
    trust: 'machine',
  },
}

async function ready(_wish: BaseWish, { provider }: BaseContext): Promise<ReadyBase> {
  if (provider.host) return { root: provider.host.root() }
  throw new AgentPodError({
    code: 'unsupported',
    reason: 'provider.host',
    message: `${provider.name} cannot use this machine's tools as a base`,
    hint: 'use the base debian or a container image',
  })
}

/** The tool that provides a language on this machine. */
function toolOf(language: string): string {
  return language === 'c' ? 'gcc' : language
}

/** Version `0` marks slow programs whose version is not asked for. */
function known(version: string): string | undefined {
  return version === '0' ? undefined : version
}

/** The contents of most packages are not known, so they count as missing. */
function hasPackage(machine: Machine, name: string): boolean {
  const programs = Object.hasOwn(PACKAGE_TOOLS, name) ? PACKAGE_TOOLS[name] : undefined
  return programs?.every((tool) => hasTool(machine, tool)) ?? false
}

function hasTool({ host: tools }: Machine, tool: string): boolean {
  return tools.some(({ name }) => name === tool)
}
