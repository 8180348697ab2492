/** The base `debian`: a release of Debian of its own, built once, to which apt adds what a project needs. */
import { AgentPodError, invalid } from '../core/error.ts'
import { type BaseWish, SUITES, type Suite } from '../core/recipe.ts'
import { DEBIAN, DEBIAN_SERVERS, hasTool } from './debian-packages.ts'
import type { BaseKind, Ground, Making, Ready } from './kind.ts'

export const debian: BaseKind = {
  name: 'debian',
  takesImage: false,
  isReadyAtOnce: false,
  ready,
  identity: (_base, root, { layers }) => layers?.of(root) ?? [],
  recipe: (ground) => ({ name: 'debian', suite: suiteOf(ground) }),

  releases: SUITES,
  grounds: () => SUITES.map((suite) => ({ base: 'debian', suite })),
  called: (ground) => `Debian ${suiteOf(ground)}`,
  within: (ground) => `in Debian ${suiteOf(ground)}`,
  detail: suiteOf,

  packageManager: 'apt',
  hasKnownTools: true,
  languages: (ground, _machine, language) =>
    (DEBIAN[suiteOf(ground)][language] ?? []).map((tool) => ({
      kind: 'packaged',
      version: tool.version,
      tool,
      where: 'Debian',
    })),
  server: (ground, _machine, name) => DEBIAN_SERVERS[suiteOf(ground)][name],
  tool: () => undefined,
  isPackaged: (ground, tool) => hasTool(suiteOf(ground), tool),
  hasPackage: () => false,
  // Whether a release has a package is asked of apt, when it is installed.
  lacking: (ground, _machine, { tools }) => ({
    packages: [],
    tools: tools.filter((name) => !hasTool(suiteOf(ground), name)),
  }),
  aboutPackage: ({ isOptional }) =>
    isOptional ? 'from Debian, where it has one of this name' : 'from Debian',
  otherwise: '',
  lockRefusal: undefined,

  user: 'user',
  hasProfile: true,
  trust: 'own',
}

function suiteOf({ suite }: Ground): Suite {
  return suite ?? SUITES[0]
}

async function ready({ suite, kit = 'plain' }: BaseWish, making: Making): Promise<Ready> {
  const { provider } = making
  const release = suite ?? making.suite
  // SECURITY: CP-16. Whoever may ask for a release may not have us try names.
  if (release !== making.suite && !SUITES.some((known) => known === release))
    throw invalid(
      'suite.unknown',
      `there is no release ${release} of Debian that we know`,
      `known are ${SUITES.join(', ')}`,
    )
  const { layers } = provider
  if (!layers)
    throw new AgentPodError({
      code: 'unsupported',
      reason: 'provider.layers',
      message: `${provider.name} takes no layers`,
    })
  return { root: layers.root([await making.debian(release, kit)]) }
}
