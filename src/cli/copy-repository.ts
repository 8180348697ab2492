/** A copy of the user's repository for sandboxes to begin with, on its environment, and what those sandboxes are asked to be. */
import { realpathSync } from 'node:fs'
import { relative } from 'node:path'
import type { CreateOptions } from '../client/sandbox.ts'
import type { Repository } from '../sync/git/repository.ts'
import { userSettings } from '../sync/git/user-settings.ts'
import { createOptions, usualUser, variablesOf } from './args/options.ts'
import type { Parsed } from './args/parse.ts'
import type { CommandContext } from './command.ts'
import { environmentIn } from './environment.ts'
import { networkOf } from './network.ts'
import { placementOf } from './placement.ts'
import type { PreparedNetwork } from './prepare-network.ts'
import { type HeldState, holdState, type PreparedRun, prepareRun } from './prepare-run.ts'
import { inEnvironment, openProject, type Project } from './project.ts'
import type { ReadyEnvironment } from './ready.ts'

export interface RepositoryCopy extends PreparedRun {
  readonly user: string
  /** With the environment and the variables of presets. */
  readonly options: CreateOptions
  readonly network: PreparedNetwork['network'] | undefined
  /** For package managers, below the user's home. */
  readonly files: readonly { readonly path: string; readonly text: string }[]
  readonly ready: ReadyEnvironment | undefined
  /** Where the user is, from the top; the top itself where that is not part of the copy. */
  readonly directory: string
}

export async function copyRepository(
  ctx: CommandContext,
  parsed: Parsed,
  repo: Repository,
): Promise<RepositoryCopy> {
  const inRoot = { ...ctx, cwd: repo.root }
  const [opened, settings] = await Promise.all([openProject(inRoot, usualUser(parsed)), userSettings(repo)])
  // Git looks at the files while the environment is planned, which begins with loading a lot.
  const holding = holdState(ctx, repo, { isClean: parsed.has('clean'), settings })
  const settled = holding.then(
    (held) => held,
    () => undefined,
  )
  try {
    const ready = await environmentIn(inRoot, parsed, opened)
    const copied = await copyIn(inRoot, parsed, repo, { opened, ready, held: await holding })
    return { ...copied, directory: directoryOf(ctx, repo, opened) }
  } finally {
    ;(await settled)?.[Symbol.dispose]()
  }
}

/** A directory without files of the project is not in the copy. */
function directoryOf({ cwd }: CommandContext, repo: Repository, { files }: Project): string {
  const directory = relative(repo.root, realpathSync(cwd))
  return files.some((file) => file.startsWith(`${directory}/`)) ? directory : ''
}

async function copyIn(
  ctx: CommandContext,
  parsed: Parsed,
  repo: Repository,
  o: { readonly opened: Project; readonly ready: ReadyEnvironment | undefined; readonly held: HeldState },
): Promise<Omit<RepositoryCopy, 'directory'>> {
  const { opened, ready, held } = o
  const { user, aside } = inEnvironment(
    opened,
    parsed.value('user') ?? ready?.user ?? usualUser(parsed),
    ready?.aside ?? [],
  )
  const placement = await placementOf(ctx, parsed, repo.root)
  const asked = createOptions(
    parsed,
    variablesOf(parsed, ctx.env),
    ready ? { isAnyBase: true, placement } : { placement },
  )
  const { environment, ...options } = ready ? ready.apply(asked) : asked
  const wanted = await networkOf(ctx, parsed, repo.root, ready?.wish)
  const whole = {
    ...options,
    environment: { ...environment, user, variables: { ...wanted?.variables, ...environment?.variables } },
  }
  const prepared = await prepareRun(ctx, await ctx.client(), {
    repo,
    held,
    options: whole,
    user,
    aside,
  })
  return { ...prepared, user, options: whole, network: wanted?.network, files: wanted?.files ?? [], ready }
}
