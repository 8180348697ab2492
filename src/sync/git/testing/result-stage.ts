/**
 * A user's repository, a workspace as the sandbox has it, and the way from one to the other, on one machine.
 * For tests.
 */
import { execFileSync, spawnSync } from 'node:child_process'
import { chmodSync, mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { Readable } from 'node:stream'
import { openRepository, type Repository } from '../plumbing/repository.ts'
import { type Received, receiveResult } from '../result/receive.ts'
import { parseResultHeader, type ResultHeader } from '../result/result-header.ts'
import { LARGEST_RESULT_FILE, resultScript } from '../result/result-script.ts'

/** Where git is found: only tests themselves may look at the environment. */
const PATH = execFileSync('/bin/sh', ['-c', 'printf %s "$PATH"'], { encoding: 'utf8' })

export type Files = Readonly<
  Record<string, string | { readonly link: string } | { readonly run: string } | null>
>

export interface Result {
  readonly header: ResultHeader
  readonly pack: Buffer
}

export class ResultStage {
  readonly directory = realpathSync(mkdtempSync(join(tmpdir(), 'agentpod-result-')))
  readonly root = join(this.directory, 'project')
  /** Git as the user has it: no settings but these, so that the machine's have no say. */
  readonly env: Readonly<Record<string, string | undefined>>
  commit = ''
  tree = ''
  #scratches = 0
  #isPrepared = false

  constructor(files: Files = { 'a.txt': 'one\ntwo\nthree\n', 'src/b.js': 'b\n' }) {
    const home = join(this.directory, 'home')
    mkdirSync(home)
    writeFileSync(join(home, '.gitconfig'), '[user]\n\tname = Some One\n\temail = some.one@example.com\n')
    this.env = { PATH: PATH, HOME: home }
    mkdirSync(this.root)
    this.git('init', '-q', '--template=', '-b', 'main')
    this.write(this.root, files)
    this.git('add', '-A', '-f')
    this.git('commit', '-q', '--allow-empty', '-m', 'begin')
    this.begin()
  }

  [Symbol.dispose](): void {
    rmSync(this.directory, { recursive: true, force: true })
  }

  /** Plain git, with all that the user's configuration says. */
  git(...args: string[]): string {
    return this.gitIn(this.root, ...args)
  }

  gitIn(cwd: string, ...args: string[]): string {
    return this.#run(cwd, this.env, args)
  }

  gitWith(env: Readonly<Record<string, string | undefined>>, ...args: string[]): string {
    return this.#run(this.directory, env, args)
  }

  /** In the repository that the sandbox has of the start. */
  inStash(...args: string[]): string {
    return this.gitIn(join(this.stash, 'repo.git'), ...args)
  }

  #run(
    cwd: string,
    variables: Readonly<Record<string, string | undefined>>,
    args: readonly string[],
  ): string {
    const env = { ...variables, GIT_CONFIG_NOSYSTEM: '1', GIT_TERMINAL_PROMPT: '0' }
    const answer = spawnSync('git', args, { cwd, env, encoding: 'utf8', maxBuffer: 2 ** 28 })
    if (answer.status !== 0) throw new Error(`git ${args.join(' ')}: ${answer.stderr}`)
    return answer.stdout.replace(/\n$/, '')
  }

  /** What goes in: the commit that the user's repository is at, or something else. */
  begin(commit = this.git('rev-parse', 'HEAD'), tree = this.git('rev-parse', `${commit}^{tree}`)): void {
    this.commit = commit
    this.tree = tree
    this.#isPrepared = false
  }

  /** What the sandbox has is made when it is first looked at. */
  get stash(): string {
    this.#prepare()
    return join(this.directory, 'stash')
  }

  get workspace(): string {
    this.#prepare()
    return join(this.directory, 'workspace')
  }

  #prepare(): void {
    if (this.#isPrepared) return
    this.#isPrepared = true
    for (const path of [this.stash, this.workspace]) rmSync(path, { recursive: true, force: true })
    mkdirSync(this.stash)
    this.gitIn(this.directory, 'clone', '-q', '--no-hardlinks', this.root, this.workspace)
    this.gitIn(
      this.directory,
      'clone',
      '-q',
      '--bare',
      '--no-hardlinks',
      this.root,
      join(this.stash, 'repo.git'),
    )
  }

  repository(root = this.root): Promise<Repository> {
    return openRepository(root, this.env)
  }

  /** What the agent does. `null` removes. */
  work(files: Files): void {
    this.write(this.workspace, files)
  }

  write(root: string, files: Files): void {
    for (const [path, content] of Object.entries(files)) {
      const full = join(root, path)
      rmSync(full, { recursive: true, force: true })
      if (content === null) continue
      mkdirSync(dirname(full), { recursive: true })
      if (typeof content === 'string') writeFileSync(full, content)
      else if ('link' in content) symlinkSync(content.link, full)
      else {
        writeFileSync(full, content.run)
        chmodSync(full, 0o755)
      }
    }
  }

  /** The script as the sandbox runs it. */
  run(
    aside: readonly string[] = [],
    largestBytes = LARGEST_RESULT_FILE,
    only?: readonly string[],
  ): { code: number; out: Buffer; words: string } {
    const { workspace, stash, tree, commit } = this
    const { command, args } = resultScript({ workspace, stash, tree, commit, aside, largestBytes, only })
    const env = { PATH: PATH, HOME: this.directory }
    const answer = spawnSync(command, args, { env, maxBuffer: 2 ** 28 })
    return { code: answer.status ?? -1, out: answer.stdout, words: answer.stderr.toString('utf8') }
  }

  result(
    aside: readonly string[] = [],
    largestBytes = LARGEST_RESULT_FILE,
    only?: readonly string[],
  ): Result {
    const { code, out, words } = this.run(aside, largestBytes, only)
    const parsed = parseResultHeader(out)
    if (code !== 0 || !parsed) throw new Error(`no result: ${code} ${words}`)
    return { header: parsed.header, pack: out.subarray(parsed.packAt) }
  }

  scratch(): string {
    const path = join(this.directory, `scratch-${++this.#scratches}`)
    mkdirSync(path)
    return path
  }

  async receiveResult(
    { header, pack }: { readonly pack: Buffer; readonly header: { readonly tree: string } } = this.result(),
    root = this.root,
  ): Promise<Received> {
    return receiveResult(await this.repository(root), {
      tree: this.tree,
      commit: this.commit === '' ? undefined : this.commit,
      expected: header.tree,
      pack: Readable.from([pack]),
      scratch: this.scratch(),
    })
  }

  /** Everything in the user's repository and working tree, to see that nothing changed. */
  fingerprint(): string {
    const list =
      'find . -type f ! -path "./.git/objects/*" ! -name packed-refs -exec sha256sum {} + | sort; git for-each-ref; git status --porcelain'
    return execFileSync('/bin/sh', ['-c', list], {
      cwd: this.root,
      env: { ...this.env, GIT_OPTIONAL_LOCKS: '0' },
      encoding: 'utf8',
    })
  }
}
