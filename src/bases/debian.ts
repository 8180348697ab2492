/** The base `debian`: a Debian release, built once, to which apt adds what a project needs. */
import { AgentPodError, invalid } from '../core/error.ts'
import { type BaseWish, SUITES, type Suite } from '../core/recipe.ts'
import type { BaseContext, BaseKind, ReadyBase, ResolvedBase } from './base-kind.ts'
import { DEBIAN, DEBIAN_SERVERS, hasTool } from './debian-packages.ts'

export const debian: BaseKind = {
  name: 'debian',
  takesImage: false,
  isReadyAtOnce: false,
  ready,
  identity: (_base, root, { layers }) => layers?.of(root) ?? [],
  recipe: (resolvedBase) => ({ name: 'debian', suite: suiteOf(resolvedBase) }),
  releases: SUITES,
  variants: () => SUITES.map((suite) => ({ base: 'debian', suite })),
  lockRefusal: undefined,

  texts: {
    label: (resolvedBase) => `Debian ${suiteOf(resolvedBase)}`,
    locationLabel: (resolvedBase) => `in Debian ${suiteOf(resolvedBase)}`,
    detail: suiteOf,
    aboutPackage: ({ isOptional }) =>
      isOptional ? 'from Debian, if it has a package of this name' : 'from Debian',
    missingServiceHint: '',
  },

  tools: {
    packageManager: 'apt',
    ownPackageManager: undefined,
    hasKnownTools: true,
    languages: (resolvedBase, _machine, language) =>
      (DEBIAN[suiteOf(resolvedBase)][language] ?? []).map((tool) => ({
        kind: 'packaged',
        version: tool.version,
        tool,
        where: 'Debian',
      })),
    server: (resolvedBase, _machine, name) => DEBIAN_SERVERS[suiteOf(resolvedBase)][name],
    tool: () => undefined,
    isPackaged: (resolvedBase, tool) => hasTool(suiteOf(resolvedBase), tool),
    hasPackage: () => false,
    // apt reports a missing package when it installs.
    lacking: (resolvedBase, _machine, { tools }) => ({
      packages: [],
      tools: tools.filter((name) => !hasTool(suiteOf(resolvedBase), name)),
    }),
  },

  system: {
    user: 'user',
    hasProfile: true,
    trust: 'own',
  },
}

function suiteOf({ suite }: ResolvedBase): Suite {
  return suite ?? SUITES[0]
}

async function ready({ suite, kit = 'plain' }: BaseWish, making: BaseContext): Promise<ReadyBase> {
  const { provider } = making
  const release = suite ?? making.suite
  // SECURITY: CP-16. Callers cannot make the server try arbitrary release names.
  if (release !== making.suite && !SUITES.some((known) => known === release))
    throw invalid(
      'suite.unknown',
      `unknown Debian release: ${release}`,
      `known releases: ${SUITES.join(', ')}`,
    )
  const { layers } = provider
  if (!layers)
    throw new AgentPodError({
      code: 'unsupported',
      reason: 'provider.layers',
      message: `${provider.name} does not support layers`,
    })
  return { root: layers.root([await making.debian(release, kit)]) }
}
