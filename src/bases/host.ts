/** The base `host`: the tools of this machine, read-only. Nothing is installed on it, and nothing has to be built. */
import { AgentPodError } from '../core/error.ts'
import type { BaseWish } from '../core/recipe.ts'
import { PACKAGE_TOOLS, TOOL_PACKAGES } from './debian-packages.ts'
import type { BaseKind, Machine, Making, Ready } from './kind.ts'

const WHERE = 'this machine'

export const host: BaseKind = {
  name: 'host',
  takesImage: false,
  isReadyAtOnce: true,
  ready,
  identity: ({ tools = {} }) => tools,
  recipe: (_ground, used) => ({ name: 'host', tools: used }),

  releases: [],
  grounds: () => [{ base: 'host' }],
  called: () => WHERE,
  within: () => 'on this machine',
  detail: () => undefined,

  packageManager: undefined,
  hasKnownTools: true,
  languages: (_ground, machine, language) =>
    machine.host
      .filter(({ name }) => name === toolOf(language))
      .map(({ version, directory }) => ({ kind: 'there', version, directory, where: WHERE })),
  server(_ground, machine, _name, tool) {
    const found = machine.host.find((one) => one.name === tool)
    return found && { version: found.version, packages: [] }
  },
  tool(machine, name, fits) {
    const found = machine.host.find((one) => one.name === name && fits(one.version))
    return found && { version: known(found.version), directory: found.directory }
  },
  isPackaged: (_ground, tool) => Object.hasOwn(TOOL_PACKAGES, tool),
  hasPackage,
  lacking: (_ground, machine, { packages, tools }) => ({
    packages: packages.filter((name) => !hasPackage(machine, name)),
    tools: tools.filter((name) => Object.hasOwn(TOOL_PACKAGES, name) && !hasTool(machine, name)),
  }),
  aboutPackage({ isThere, isOptional }) {
    if (isThere) return 'this machine has it'
    return isOptional ? 'left out: only CI installs it' : 'not known to be on this machine'
  },
  otherwise:
    '; Debian does: install it on this machine, or write [environment] base = "debian" with versions that Debian has',
  lockRefusal: {
    reason: 'lock.host',
    message: 'the base host cannot be locked: it is this machine, and changes with it',
    hint: 'choose one that can: [environment] base = "debian"',
  },

  user: 'user',
  hasProfile: false,
  trust: 'machine',
}

async function ready(_wish: BaseWish, { provider }: Making): Promise<Ready> {
  if (provider.host) return { root: provider.host.root() }
  throw new AgentPodError({
    code: 'unsupported',
    reason: 'provider.host',
    message: `${provider.name} does not run on this machine's tools`,
    hint: 'choose the base debian, or an image',
  })
}

/** The tool of the machine that is the language. */
function toolOf(language: string): string {
  return language === 'c' ? 'gcc' : language
}

/** Of programs that take long to say their version nobody asks for it. */
function known(version: string): string | undefined {
  return version === '0' ? undefined : version
}

/** Of most packages nobody knows what they would bring. */
function hasPackage(machine: Machine, name: string): boolean {
  const programs = Object.hasOwn(PACKAGE_TOOLS, name) ? PACKAGE_TOOLS[name] : undefined
  return programs?.every((tool) => hasTool(machine, tool)) ?? false
}

function hasTool({ host: tools }: Machine, tool: string): boolean {
  return tools.some(({ name }) => name === tool)
}
