/**
 * The inside of a sandbox as a directory: what goes in is written there, and scripts are run by this
 * machine's shell.
 */
import { execFileSync } from 'node:child_process'
import { createWriteStream, mkdirSync, mkdtempSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import type { Script } from '../changes.ts'
import { openRepository, type Repository } from '../git/plumbing/repository.ts'
import { type KnownState, packOf } from '../git/state/pack.ts'
import { prepareScript, stashOf } from '../git/state/prepare-script.ts'
import { type ProjectState, type ProjectStateOptions, readProjectState } from '../git/state/project-state.ts'

export class Inside {
  readonly workspace: string
  readonly stash: string
  readonly #env: Readonly<Record<string, string>>

  constructor(directory: string, path: string) {
    this.workspace = join(directory, 'inside', 'work space')
    this.stash = join(directory, 'inside', "sta'sh")
    this.#env = { PATH: path, HOME: join(directory, 'inside') }
    mkdirSync(this.stash, { recursive: true })
  }

  run({ command, args }: Script): string {
    return execFileSync(command, args, { env: this.#env, stdio: ['ignore', 'pipe', 'pipe'] }).toString()
  }

  git(...args: string[]): string {
    return this.gitAt('', ...args)
  }

  gitAt(path: string, ...args: string[]): string {
    const cwd = join(this.workspace, path)
    return execFileSync('git', args, { cwd, env: this.#env, stdio: ['ignore', 'pipe', 'pipe'] })
      .toString()
      .replace(/\n$/, '')
  }

  /** Git with our own copy, as results are made. */
  ours(...args: string[]): string {
    const base = join(this.stash, 'repo.git')
    return this.gitAt('', `--git-dir=${base}`, `--work-tree=${this.workspace}`, ...args)
  }

  /** The tree of what is in the workspace now. */
  treeNow(): string {
    this.ours('add', '-A')
    return this.ours('write-tree')
  }

  remembered(name: string): string {
    return readFileSync(join(this.stash, name), 'utf8').trim()
  }

  /** Brings a state in, and every submodule of it. Answers with the sizes of the packs. */
  async prepare(
    repository: Repository,
    state: ProjectState,
    o: { known?: KnownState | undefined; aside?: readonly string[]; isUntouched?: boolean } = {},
  ): Promise<number[]> {
    const all = [{ path: '', repository, state }, ...state.submodules]
    const sizes: number[] = []
    for (const [at, one] of all.entries()) {
      const pack = join(this.stash, `incoming-${at}`)
      await pipeline(
        await packOf(one.repository, one.state, at === 0 ? o.known : undefined),
        createWriteStream(pack),
      )
      sizes.push(readFileSync(pack).length)
      const { commit, tree, branch, shallow } = one.state
      this.run(
        prepareScript({
          workspace: join(this.workspace, one.path),
          stash: stashOf(this.stash, one.path),
          commit,
          tree,
          branch,
          shallow,
          aside: at === 0 ? (o.aside ?? []) : [],
          packs: [pack],
          isUntouched: o.isUntouched,
          submodules: at === 0 ? state.submodules.map(({ path }) => path) : [],
        }),
      )
    }
    return sizes
  }
}

/** The state of the repository in a directory, in a scratch of its own. */
export async function openProjectState(
  directory: string,
  env: Readonly<Record<string, string>>,
  o: Partial<ProjectStateOptions> = {},
): Promise<{ repository: Repository; state: ProjectState }> {
  const repository = await openRepository(directory, env)
  const scratch = mkdtempSync(join(env['HOME'] ?? '', 'scratch-'))
  return {
    repository,
    state: await readProjectState(repository, { isClean: false, exclude: [], scratch, ...o }),
  }
}
