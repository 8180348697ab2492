/**
 * Group GT: neither a result from a sandbox nor the user's own repository makes the host run a program or
 * write elsewhere. Each plant is shown to work first: plain git runs or accepts it.
 */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { isAgentPodError } from '../../src/core/error.ts'
import { applyChanges } from '../../src/sync/git/apply/apply.ts'
import { WorkTree } from '../../src/sync/git/apply/work-tree.ts'
import { cleanBranches, listBranches } from '../../src/sync/git/branch/clean-branches.ts'
import { makeBranch } from '../../src/sync/git/branch/make-branch.ts'
import { mergeBranch } from '../../src/sync/git/branch/merge-branch.ts'
import { changesOf, diffOf } from '../../src/sync/git/plumbing/diff.ts'
import { userGit } from '../../src/sync/git/plumbing/quarantine.ts'
import { type Files, type Result, ResultStage } from '../../src/sync/git/testing/result-stage.ts'
import { SeededRandom } from '../../src/testing/seeded-random.ts'
import {
  blob,
  deltaBomb,
  idOf,
  type PackedObject,
  pack,
  type TreeEntry,
  thinPack,
  tree,
} from '../support/git-objects.ts'

const NOW = 1_800_000_000_000

/** A program that tells that it was run. */
class Trap {
  readonly program: string
  readonly #sign: string

  constructor(directory: string) {
    mkdirSync(directory, { recursive: true })
    this.#sign = join(directory, 'canary')
    this.program = join(directory, 'trap')
    writeFileSync(this.program, `#!/bin/sh\necho run >> '${this.#sign}'\n`)
    chmodSync(this.program, 0o755)
  }

  /** Whether it was run since the last time. */
  sprung(): boolean {
    const isSprung = existsSync(this.#sign)
    rmSync(this.#sign, { force: true })
    return isSprung
  }
}

/** Plain git as a user would run it; what comes of it does not matter. */
function plainly(stage: ResultStage, cwd: string, ...args: string[]): void {
  const env = { ...stage.env, GIT_TERMINAL_PROMPT: '0' }
  spawnSync('git', args, { cwd, env, input: 'protocol=https\nhost=example.com\n\n', timeout: 20_000 })
}

/** Everything that the host does with a result, and with branches. */
async function everything(stage: ResultStage, result: Result): Promise<void> {
  const repo = await stage.repository()
  const received = await stage.receiveResult(result)
  const o = { name: 'agentpod/a-1', message: 'm', coAuthor: 'x <x@example.com>', withGated: true, now: NOW }
  const branch = await makeBranch(repo, received, o)
  await makeBranch(repo, await stage.receiveResult(result), { ...o, name: 'agentpod/a-2', withGated: false })
  assert.ok(branch)
  const user = userGit(repo)
  await changesOf(user, branch.from, branch.tree)
  await diffOf(user, branch.from, branch.tree)
  await diffOf(user, branch.from, branch.tree, { stat: true, color: true })
  await applyChanges(repo, { from: branch.from, to: branch.tree, isCheck: true })
  await mergeBranch(repo, {
    tip: branch.commit,
    name: branch.name,
    message: 'm',
    now: NOW,
    scratch: stage.scratch(),
  })
  await applyChanges(repo, { from: branch.tree, to: branch.from })
  await applyChanges(repo, { from: branch.from, to: branch.tree })
  await listBranches(repo, 'agentpod', stage.scratch())
  await cleanBranches(repo, { prefix: 'agentpod', isMergedOnly: false, scratch: stage.scratch() })
}

const HOOKS = (
  'applypatch-msg pre-applypatch post-applypatch pre-commit pre-merge-commit prepare-commit-msg commit-msg post-commit pre-rebase ' +
  'post-checkout post-merge pre-push pre-receive update proc-receive post-receive post-update reference-transaction push-to-checkout ' +
  'pre-auto-gc post-rewrite sendemail-validate fsmonitor-watchman p4-changelist p4-prepare-changelist p4-post-changelist p4-pre-submit ' +
  'post-index-change'
).split(' ')

function plantHooks(directory: string, trap: Trap): void {
  mkdirSync(directory, { recursive: true })
  for (const name of HOOKS) {
    writeFileSync(join(directory, name), readFileSync(trap.program))
    chmodSync(join(directory, name), 0o755)
  }
}

interface Plant {
  readonly name: string
  /** Those of one number do not disturb each other. */
  readonly group?: 2 | 3
  /** Puts it into a repository: the user's, or the workspace's. */
  readonly plant: (stage: ResultStage, root: string, trap: Trap) => void
  /** What a user would do that runs it. */
  readonly control: (stage: ResultStage, root: string) => void
}

const ATTRIBUTES = '*.txt filter=evil diff=evil merge=evil\n'

const setting =
  (key: string, value: (trap: Trap, root: string) => string, ...more: string[]) =>
  (stage: ResultStage, root: string, trap: Trap) => {
    stage.gitIn(root, 'config', key, value(trap, root))
    for (const each of more)
      stage.gitIn(root, 'config', ...each.split('=').slice(0, 1), each.slice(each.indexOf('=') + 1))
  }
const program = (trap: Trap): string => trap.program
const does =
  (...commands: string[][]) =>
  (stage: ResultStage, root: string) => {
    for (const command of commands) plainly(stage, root, ...command)
  }

function attributes(root: string): void {
  mkdirSync(join(root, '.git/info'), { recursive: true })
  writeFileSync(join(root, '.git/info/attributes'), ATTRIBUTES)
}

/** Two branches that changed one file, for plain git to merge. */
function diverge(stage: ResultStage, root: string): void {
  const own = ['-c', 'filter.evil.clean=cat', '-c', 'filter.evil.process=', '-c', 'core.hooksPath=/dev/null']
  for (const [branch, line] of [
    ['left', 'L'],
    ['right', 'R'],
  ] as const) {
    stage.gitIn(root, ...own, 'checkout', '-q', '-f', '-B', branch, stage.commit)
    writeFileSync(join(root, 'a.txt'), `one\ntwo\nthree\n${line}\n`)
    stage.gitIn(root, ...own, 'commit', '-q', '-a', '-m', branch)
  }
}

const PLANTS: readonly Plant[] = [
  { name: 'GT-01 core.fsmonitor', plant: setting('core.fsmonitor', program), control: does(['status']) },
  {
    name: 'GT-02 all hooks',
    plant: (_, root, trap) => plantHooks(join(root, '.git/hooks'), trap),
    control: does(['commit', '-q', '--allow-empty', '-m', 'x']),
  },
  {
    name: 'GT-02 core.hooksPath',
    group: 2,
    plant: (stage, root, trap) => {
      plantHooks(join(stage.directory, 'hooks'), trap)
      stage.gitIn(root, 'config', 'core.hooksPath', join(stage.directory, 'hooks'))
    },
    control: does(['update-ref', 'refs/heads/x', 'HEAD']),
  },
  {
    name: 'GT-02 hooks in templates',
    group: 2,
    plant: (stage, root, trap) => {
      plantHooks(join(stage.directory, 'template/hooks'), trap)
      stage.gitIn(root, 'config', '--global', 'init.templateDir', join(stage.directory, 'template'))
    },
    control: (stage) => {
      plainly(stage, stage.directory, 'init', '-q', 'templated')
      plainly(stage, join(stage.directory, 'templated'), 'commit', '-q', '--allow-empty', '-m', 'x')
    },
  },
  {
    name: 'GT-03 core.sshCommand',
    plant: setting('core.sshCommand', program),
    control: does(['ls-remote', 'ssh://example.com/x']),
  },
  {
    name: 'GT-03 core.gitProxy',
    plant: setting('core.gitProxy', program),
    control: does(['ls-remote', 'git://example.com/x']),
  },
  {
    name: 'GT-03 core.askPass',
    plant: setting('core.askPass', program),
    control: does(['credential', 'fill']),
  },
  {
    name: 'GT-03 credential.helper',
    plant: setting('credential.helper', program),
    control: does(['credential', 'fill']),
  },
  {
    name: 'GT-03 core.editor',
    plant: setting('core.editor', program),
    control: does(['commit', '--allow-empty']),
  },
  { name: 'GT-03 core.pager', plant: setting('core.pager', program), control: does(['grep', '-O', 'one']) },
  {
    name: 'GT-03 sequence.editor',
    plant: setting('sequence.editor', program),
    control: does(['rebase', '-i', '--root']),
  },
  {
    name: 'GT-03 gpg.program',
    plant: setting(
      'gpg.program',
      program,
      'commit.gpgSign=true',
      'tag.gpgSign=true',
      'user.signingKey=x',
      'log.showSignature=true',
      'merge.verifySignatures=true',
    ),
    control: does(['commit', '-q', '--allow-empty', '-m', 'x']),
  },
  {
    name: 'GT-03 gpg.ssh.defaultKeyCommand',
    group: 2,
    plant: setting('gpg.ssh.defaultKeyCommand', program, 'gpg.format=ssh', 'commit.gpgSign=true'),
    control: does(['commit', '-q', '--allow-empty', '-m', 'x']),
  },
  { name: 'GT-03 alias', plant: setting('alias.st', (trap) => `!${trap.program}`), control: does(['st']) },
  {
    name: 'GT-03 include.path',
    group: 2,
    plant: (stage, root, trap) => {
      writeFileSync(join(stage.directory, 'included'), `[core]\n\tfsmonitor = ${trap.program}\n`)
      stage.gitIn(root, 'config', 'include.path', join(stage.directory, 'included'))
    },
    control: does(['status']),
  },
  {
    name: 'GT-03 includeIf',
    group: 3,
    plant: (stage, root, trap) => {
      writeFileSync(join(stage.directory, 'included'), `[core]\n\tfsmonitor = ${trap.program}\n`)
      stage.gitIn(root, 'config', 'includeIf.gitdir:**.path', join(stage.directory, 'included'))
    },
    control: does(['status']),
  },
  {
    name: 'GT-03 url.insteadOf, protocol.ext.allow',
    plant: (stage, root, trap) => {
      stage.gitIn(root, 'config', `url.ext::${trap.program} .insteadOf`, 'https://example.com/')
      stage.gitIn(root, 'config', 'protocol.ext.allow', 'always')
    },
    control: does(['ls-remote', 'https://example.com/x']),
  },
  {
    name: 'GT-03 remote.uploadpack and receivepack',
    plant: (stage, root, trap) => {
      for (const [key, value] of [
        ['url', root],
        ['uploadpack', trap.program],
        ['receivepack', trap.program],
        ['fetch', '+refs/heads/*:refs/remotes/evil/*'],
      ] as const)
        stage.gitIn(root, 'config', `remote.evil.${key}`, value)
    },
    control: does(['fetch', 'evil']),
  },
  {
    name: 'GT-03 a partial clone that fetches what is missing',
    group: 2,
    plant: (stage, root, trap) => {
      for (const [key, value] of [
        ['url', root],
        ['uploadpack', trap.program],
        ['promisor', 'true'],
      ] as const)
        stage.gitIn(root, 'config', `remote.evil.${key}`, value)
      stage.gitIn(root, 'config', 'extensions.partialClone', 'evil')
    },
    control: does(['cat-file', '-p', 'f'.repeat(40)]),
  },
  {
    name: 'GT-04 filter.clean and smudge',
    plant: (stage, root, trap) => {
      attributes(root)
      setting('filter.evil.clean', program, `filter.evil.smudge=${trap.program}`)(stage, root, trap)
    },
    control: (stage, root) => {
      writeFileSync(join(root, 'control.txt'), 'x')
      plainly(stage, root, 'add', 'control.txt')
      plainly(stage, root, 'rm', '-q', '-f', 'control.txt')
    },
  },
  {
    name: 'GT-04 filter.process',
    group: 2,
    plant: (stage, root, trap) => {
      attributes(root)
      setting('filter.evil.process', program)(stage, root, trap)
    },
    control: (stage, root) => {
      writeFileSync(join(root, 'control.txt'), 'x')
      plainly(stage, root, 'add', 'control.txt')
      plainly(stage, root, 'rm', '-q', '-f', 'control.txt')
    },
  },
  {
    name: 'GT-04 diff.textconv',
    plant: (stage, root, trap) => {
      attributes(root)
      setting('diff.evil.textconv', program)(stage, root, trap)
    },
    control: does(['show', 'HEAD']),
  },
  {
    name: 'GT-04 diff.command',
    group: 2,
    plant: (stage, root, trap) => {
      attributes(root)
      setting('diff.evil.command', program)(stage, root, trap)
    },
    control: does(['diff', '4b825dc642cb6eb9a060e54bf8d69288fbee4904', 'HEAD']),
  },
  {
    name: 'GT-04 diff.external',
    group: 3,
    plant: setting('diff.external', program),
    control: does(['diff', '4b825dc642cb6eb9a060e54bf8d69288fbee4904', 'HEAD']),
  },
  {
    name: 'GT-04 merge driver',
    plant: (stage, root, trap) => {
      attributes(root)
      setting('merge.evil.driver', program, `merge.default=evil`)(stage, root, trap)
    },
    control: (stage, root) => {
      diverge(stage, root)
      plainly(stage, root, 'merge', '-q', 'left', '-m', 'x')
      plainly(stage, root, 'reset', '-q', '--hard')
      plainly(stage, root, 'checkout', '-q', '-f', '-B', 'main', stage.commit)
    },
  },
  {
    name: 'GT-05 Git LFS with another transfer agent',
    group: 3,
    plant: (stage, root, trap) => {
      attributes(root)
      writeFileSync(join(root, '.git/info/attributes'), '*.txt filter=lfs diff=lfs merge=lfs\n')
      writeFileSync(join(root, '.lfsconfig'), '[lfs]\n\turl = ext::evil\n\tstandalonetransferagent = evil\n')
      setting(
        'filter.lfs.clean',
        program,
        `filter.lfs.smudge=${trap.program}`,
        `lfs.customtransfer.evil.path=${trap.program}`,
        'lfs.standalonetransferagent=evil',
      )(stage, root, trap)
    },
    control: (stage, root) => {
      writeFileSync(join(root, 'control.txt'), 'x')
      plainly(stage, root, 'add', 'control.txt')
      plainly(stage, root, 'rm', '-q', '-f', 'control.txt')
    },
  },
]

describe('programs that git is told to run', () => {
  for (const { name, plant, control } of PLANTS)
    test(`RUN-16 ${name}: the control`, () => {
      using stage = new ResultStage()
      const trap = new Trap(stage.directory)
      plant(stage, stage.root, trap)
      control(stage, stage.root)
      assert.ok(trap.sprung())
    })

  for (const group of [undefined, 2, 3] as const) {
    const plants = PLANTS.filter((one) => one.group === group)
    test(`RUN-16 the host runs nothing of ${plants.map(({ name }) => name).join('; ')}`, async () => {
      using stage = new ResultStage()
      stage.work({
        'a.txt': 'one\n2\nthree\n',
        'new.txt': 'n',
        '.gitattributes': ATTRIBUTES,
        '.lfsconfig': '[lfs]\n\turl = ext::evil\n',
      })
      const traps = new Map<string, Trap>()
      for (const [i, { name, plant }] of plants.entries())
        for (const root of [stage.root, stage.workspace]) {
          const trap = traps.get(name) ?? new Trap(join(stage.directory, `trap-${i}`))
          plant(stage, root, trap)
          traps.set(name, trap)
        }
      rmSync(join(stage.root, '.lfsconfig'), { force: true })
      // This runs inside, where it can harm only itself.
      const result = stage.result()
      for (const trap of traps.values()) trap.sprung()
      await everything(stage, result)
      const sprung = [...traps].filter(([, trap]) => trap.sprung()).map(([name]) => name)
      assert.deepEqual(sprung, [])
    })
  }
})

/** The user's repository and working tree, file by file, objects too. */
function everyFile(stage: ResultStage): string[] {
  return readdirSync(stage.root, { recursive: true, encoding: 'utf8' }).sort()
}

const FILE = blob('harmless\n')
const LINK = blob('/etc/passwd')
const leaf = (
  name: string | Buffer,
  mode = '100644',
  id = idOf(mode === '120000' ? LINK : FILE),
): TreeEntry => ({ mode, name, id })
const directory = (name: string, inner: PackedObject): TreeEntry => ({ mode: '40000', name, id: idOf(inner) })

/** A tree with one bad entry. Plain git accepts all of them, unless it is told to check. */
const TREES: readonly { name: string; objects: readonly PackedObject[]; why?: RegExp }[] = [
  ...[
    '.git',
    '.GIT',
    '.Git',
    'git~1',
    'GIT~1',
    '.git ',
    '.git.',
    '.g\u200cit',
    '.\u200dgit',
    '.git\ufeff',
    '.git::$INDEX_ALLOCATION',
  ].map((name) => ({
    name: `GT-07 a file ${JSON.stringify(name)}`,
    objects: [tree(leaf(name)), FILE],
  })),
  {
    name: 'GT-07 .git as a link to a repository of the host',
    objects: [tree(leaf('.git', '120000')), LINK],
  },
  { name: 'GT-07 .git as a directory with hooks', objects: withInner('.git', tree(leaf('config'))) },
  { name: 'GT-07 .git deep inside', objects: withInner('sub', tree(leaf('.git'))) },
  { name: 'GT-06 a name that leads up', objects: withInner('..', tree(leaf('x'))) },
  { name: 'GT-06 a file called ..', objects: [tree(leaf('..')), FILE] },
  { name: 'GT-06 a file called .', objects: [tree(leaf('.')), FILE] },
  { name: 'GT-06 a name with a slash', objects: [tree(leaf('a/b')), FILE] },
  { name: 'GT-06 an absolute name', objects: [tree(leaf('/etc/x')), FILE] },
  { name: 'GT-06 a name that ends in a return', objects: [tree(leaf('name\r')), FILE] },
  { name: 'a name with a line end', objects: [tree(leaf('a\nb')), FILE] },
  { name: 'a name that a terminal obeys', objects: [tree(leaf('a\u001b[2J')), FILE] },
  { name: 'a name that no disk takes', objects: [tree(leaf('x'.repeat(300))), FILE] },
  { name: 'GT-06 a submodule that was not there', objects: [tree(leaf('sub', '160000', 'a'.repeat(40)))] },
  {
    name: 'GT-06 submodules with a command for a url',
    objects: modules('[submodule "x"]\n\tpath = x\n\turl = -u./payload\n'),
  },
  {
    name: 'GT-06 submodules with a name that leads up',
    objects: modules('[submodule "../../x"]\n\tpath = x\n\turl = https://example.com\n'),
  },
  {
    name: 'GT-06 submodules with a command to update',
    objects: modules('[submodule "x"]\n\tpath = x\n\turl = https://example.com\n\tupdate = !touch x\n'),
  },
  {
    name: 'GT-06 submodules with an option for a path',
    objects: modules('[submodule "x"]\n\tpath = -x\n\turl = https://example.com\n'),
  },
  { name: 'GT-06 .gitmodules as a link', objects: [tree(leaf('.gitmodules', '120000')), LINK] },
  { name: 'the same name twice', objects: [tree(leaf('a'), leaf('a')), FILE] },
  {
    name: 'a file and a directory of one name',
    objects: [
      ...withInner('a', tree(leaf('x'))).slice(1),
      tree(leaf('a'), directory('a', tree(leaf('x')))),
    ].reverse(),
  },
  { name: 'names out of order', objects: [tree(leaf('b'), leaf('a')), FILE] },
  ...['100664', '100600', '104755', '100777', '140000', '60000', '10000', '0', '040000'].map((mode) => ({
    name: `a file of the mode ${mode}`,
    objects: [tree({ mode, name: 'x', id: idOf(FILE) }), FILE],
  })),
  {
    name: 'a file that is a directory',
    objects: [tree(leaf('x', '100644', idOf(tree(leaf('y'))))), tree(leaf('y')), FILE],
  },
  { name: 'a directory that is a file', objects: [tree(leaf('x', '40000')), FILE] },
  { name: 'a file whose content is not there', objects: [tree(leaf('x', '100644', 'b'.repeat(40)))] },
  { name: 'a directory that is not there', objects: [tree(leaf('x', '40000', 'b'.repeat(40)))] },
  { name: 'a result that is no tree', objects: [FILE] },
  {
    name: 'a tree that ends early',
    objects: [{ type: 'tree', content: tree(leaf('x')).content.subarray(0, 20) }, FILE],
  },
  {
    name: 'directories that hold themselves ten times, ten deep',
    objects: bomb(10, 10),
    why: /too many files/,
  },
  { name: 'directories without end', objects: bomb(1, 140), why: /too deep/ },
  {
    name: 'a file that is 256 MiB of nothing',
    objects: [tree(leaf('x', '100644', idOf(blob(Buffer.alloc(2 ** 28))))), blob(Buffer.alloc(2 ** 28))],
    why: /larger than 128 MiB/,
  },
]

function withInner(name: string, inner: PackedObject): PackedObject[] {
  return [tree(directory(name, inner)), inner, FILE]
}

function modules(text: string): PackedObject[] {
  return [tree(leaf('.gitmodules', '100644', idOf(blob(text)))), blob(text)]
}

function bomb(width: number, depth: number): PackedObject[] {
  const objects = [FILE]
  let inner: PackedObject = tree(leaf('f'))
  for (let i = 0; i < depth; i++) {
    objects.unshift(inner)
    const holds = inner
    inner = tree(...Array.from({ length: width }, (_, n) => directory(`d${n}`, holds)))
  }
  return [inner, ...objects]
}

function isRefused(error: unknown, why?: RegExp): boolean {
  assert.ok(isAgentPodError(error), String(error))
  assert.ok(error.reason === 'result.refused', `${error.reason}: ${error.message}`)
  if (why) assert.match(error.message, why)
  assert.doesNotMatch(error.message, /[^\P{C}\n]/u)
  return true
}

describe('hostile packs', () => {
  let stage: ResultStage
  before(() => {
    stage = new ResultStage()
  })
  after(() => stage[Symbol.dispose]())

  const refuse = async (bytes: Buffer, expected: string, why?: RegExp): Promise<void> => {
    const files = everyFile(stage)
    await assert.rejects(stage.receiveResult({ header: { tree: expected }, pack: bytes }), (error) =>
      isRefused(error, why),
    )
    assert.deepEqual(everyFile(stage), files)
  }

  for (const { name, objects, why } of TREES)
    test(`RUN-15 a pack is refused: ${name}`, async () => {
      const [root = FILE] = objects
      const bytes = pack(objects)
      // The control: git accepts it without the checks.
      const bare = stage.scratch()
      stage.gitIn(bare, 'init', '-q', '--bare')
      const taken = spawnSync('git', ['index-pack', '--stdin'], {
        cwd: bare,
        env: { ...stage.env },
        input: bytes,
      })
      assert.equal(taken.status, 0, taken.stderr.toString('utf8'))
      await refuse(bytes, idOf(root), why)
    })

  test('RUN-15 a pack that is truncated anywhere is refused', async () => {
    const objects = [tree(leaf('x')), FILE]
    const bytes = pack(objects)
    for (let end = 0; end < bytes.length; end += 17)
      await refuse(bytes.subarray(0, end), idOf(tree(leaf('x'))))
  })

  test('RUN-15 a pack with one flipped bit is refused (seeded)', async () => {
    const random = new SeededRandom(20)
    const good = pack([tree(leaf('x')), FILE])
    await stage.receiveResult({ header: { tree: idOf(tree(leaf('x'))) }, pack: good })
    for (let i = 0; i < 15; i++) {
      const bytes = Buffer.from(good)
      const at = random.below(bytes.length)
      bytes[at] = (bytes[at] ?? 0) ^ (1 << random.below(8))
      await refuse(bytes, idOf(tree(leaf('x'))))
    }
  })

  const one = tree(leaf('x'))
  const PACKS: readonly (readonly [name: string, bytes: () => Buffer, expected?: string, why?: RegExp])[] = [
    ['that is empty, and is to hold something', () => pack([])],
    ['that is no pack', () => Buffer.from('<html>not found</html>')],
    ['with a tail', () => Buffer.concat([pack([one, FILE]), Buffer.from('more')]), idOf(one)],
    ['that says it holds more', () => pack([one, FILE], 3), idOf(one)],
    ['that says it holds millions', () => pack([one, FILE], 0xffffffff), idOf(one)],
    ['with something else than was said', () => pack([one, FILE]), 'c'.repeat(40)],
    ['with a delta on nothing', () => thinPack('d'.repeat(40))],
    ['with a delta that makes two gigabytes', () => deltaBomb(2 ** 31), 'e'.repeat(40)],
  ]
  for (const [name, bytes, expected = 'c'.repeat(40), why] of PACKS)
    test(`RUN-15 a pack ${name} is refused`, () => refuse(bytes(), expected, why))

  test('RUN-15 a pack that is larger than allowed is refused', async () => {
    const { receiveResult } = await import('../../src/sync/git/result/receive.ts')
    const noise = blob(Buffer.from(new SeededRandom(1).bytes(200_000)))
    const file = join(stage.directory, 'large.pack')
    writeFileSync(file, pack([tree(leaf('x', '100644', idOf(noise))), noise]))
    const o = {
      tree: stage.tree,
      commit: stage.commit,
      pack: file,
      expected: idOf(tree(leaf('x', '100644', idOf(noise)))),
    }
    const repo = await stage.repository()
    await receiveResult(repo, { ...o, scratch: stage.scratch() })
    await assert.rejects(
      receiveResult(repo, { ...o, scratch: stage.scratch(), largestPackBytes: 100_000 }),
      (error) => isRefused(error),
    )
  })

  for (const expected of ['', 'HEAD', '--help', '../x', 'a'.repeat(41), `${'a'.repeat(40)}\n`, 'main'])
    test(`RUN-15 a result with the tree id ${JSON.stringify(expected)} is refused`, () =>
      refuse(pack([one, FILE]), expected))
})

test('RUN-14 objects that no file needs do not reach the user’s repository', async () => {
  using stage = new ResultStage()
  const extra = blob('nobody asked for this')
  const root = tree(leaf('x'))
  const received = await stage.receiveResult({
    header: { tree: idOf(root) },
    pack: pack([root, FILE, extra]),
  })
  await makeBranch(await stage.repository(), received, {
    name: 'agentpod/x-1',
    message: 'm',
    coAuthor: undefined,
    withGated: true,
    now: NOW,
  })
  assert.equal(stage.git('cat-file', '-t', idOf(FILE)), 'blob', 'the control')
  assert.throws(() => stage.git('cat-file', '-t', idOf(extra)))
})

test('RUN-14 RUN-16 GT-07 a .git of the workspace that is a link or a file does not lead to a repository of the host', async () => {
  for (const isLink of [true, false]) {
    using stage = new ResultStage()
    const git = join(stage.workspace, '.git')
    const secret = 'a subject of the host’s'
    stage.git('commit', '-q', '--allow-empty', '-m', secret)
    rmSync(git, { recursive: true })
    if (isLink) symlinkSync(join(stage.root, '.git'), git)
    else writeFileSync(git, `gitdir: ${join(stage.root, '.git')}\n`)
    assert.match(
      stage.gitIn(stage.workspace, 'log', '-1', '--format=%s'),
      /host/,
      'the control: git follows it',
    )
    stage.work({ new: 'x' })
    const files = everyFile(stage)
    const received = await stage.receiveResult()
    assert.deepEqual(
      received.changes.map(({ path }) => path),
      ['new'],
    )
    assert.deepEqual(everyFile(stage), files)
  }
})

test('RUN-16 GT-06 plain git follows a returned submodule, and the host does nothing with it', async () => {
  using stage = new ResultStage()
  const trap = new Trap(stage.directory)
  stage.work({ 'a.txt': 'changed', 'x.txt': 'x' })
  stage.write(stage.workspace, {
    '.gitmodules': `[submodule "x"]\n\tpath = sub\n\turl = ext::${trap.program}\n`,
  })
  stage.gitIn(stage.workspace, 'update-index', '--add', '--cacheinfo', `160000,${stage.commit},sub`)
  stage.gitIn(stage.workspace, 'add', '.gitmodules')
  plainly(stage, stage.workspace, '-c', 'protocol.ext.allow=always', 'submodule', 'update', '--init')
  assert.ok(trap.sprung(), 'the control')
  const { header, pack: bytes } = stage.result()
  trap.sprung()
  const received = await stage.receiveResult({ header, pack: bytes })
  assert.deepEqual(
    received.gate.map(({ kind, path }) => `${kind} ${path}`),
    ['git .gitmodules'],
  )
  await everything(stage, { header, pack: bytes })
  assert.ok(!trap.sprung())
})

test('RUN-17 GT-14 files that run later on the host are listed apart and left out, with the files they name', async () => {
  using stage = new ResultStage({
    'a.txt': 'a\n',
    'package.json': '{"scripts":{"postinstall":"node scripts/setup.js"}}',
    'scripts/setup.js': '1',
    '.husky/pre-commit': './scripts/check.sh\n',
    'scripts/check.sh': { run: '1' },
  })
  const trap = new Trap(stage.directory)
  const run = `'${trap.program}'`
  const hostile = {
    '.vscode/tasks.json': JSON.stringify({
      tasks: [{ command: `${trap.program} tools/task.sh`, runOptions: { runOn: 'folderOpen' } }],
    }),
    'tools/task.sh': { run: `#!/bin/sh\n${run}\n` },
    '.claude/settings.json': JSON.stringify({ hooks: { SessionStart: [{ command: trap.program }] } }),
    '.envrc': `${run}\n`,
    Makefile: `all:\n\t${run}\n`,
    '.github/workflows/ci.yml': 'on: push\n',
    '.pre-commit-config.yaml': 'repos: []\n',
    'scripts/setup.js': `require('node:child_process').execFileSync(${JSON.stringify(trap.program)})`,
    'scripts/check.sh': { run: `#!/bin/sh\n${run}\n` },
    '.githooks/pre-commit': { run: `#!/bin/sh\n${run}\n` },
    out: { link: '/etc' },
  }
  stage.work({ ...hostile, 'a.txt': 'b\n' })
  const received = await stage.receiveResult()
  assert.deepEqual(received.gate.map(({ path }) => path).sort(), Object.keys(hostile).sort())
  const repo = await stage.repository()
  const branch = await makeBranch(repo, received, {
    name: 'agentpod/x-1',
    message: 'm',
    coAuthor: undefined,
    withGated: false,
    now: NOW,
  })
  assert.ok(branch)
  await applyChanges(repo, { from: branch.from, to: branch.tree })
  const used = (root: string): void => {
    spawnSync('make', [], { cwd: root })
    for (const script of ['scripts/check.sh', 'tools/task.sh']) spawnSync('/bin/sh', [script], { cwd: root })
    spawnSync(process.execPath, ['scripts/setup.js'], { cwd: root })
  }
  used(stage.root)
  assert.ok(!trap.sprung(), 'nothing of it is there')
  assert.equal(readFileSync(join(stage.root, 'a.txt'), 'utf8'), 'b\n')
  used(stage.workspace)
  assert.ok(trap.sprung(), 'the control')
})

describe('GT-15 a directory of the result that git takes for a repository is left out', () => {
  /** What git needs to take a directory for a repository, with a setting that names a program. */
  const repository = (program: string): Files => ({
    HEAD: 'ref: refs/heads/main\n',
    config: `[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = ..\n\tfsmonitor = ${program}\n`,
    'objects/x': 'x',
    'refs/x': 'x',
  })
  const below = (directory: string, files: Files): Files =>
    Object.fromEntries(Object.entries(files).map(([path, content]) => [`${directory}/${path}`, content]))
  const only = (files: Files, ...paths: string[]): Files =>
    Object.fromEntries(Object.entries(files).filter(([path]) => paths.includes(path)))
  const without = (files: Files, gone: string): Files =>
    Object.fromEntries(Object.entries(files).filter(([path]) => path !== gone))
  const whole = (program: string): Files => below('docs', repository(program))

  const cases: readonly (readonly [
    name: string,
    before: (program: string) => Files,
    work: (program: string) => Files,
    isRun: boolean,
  ])[] = [
    ['a whole one', () => ({}), whole, true],
    [
      'one that is completed by its HEAD',
      (p) => without(whole(p), 'docs/HEAD'),
      (p) => only(whole(p), 'docs/HEAD'),
      true,
    ],
    [
      'one that is completed by its objects',
      (p) => without(whole(p), 'docs/objects/x'),
      (p) => only(whole(p), 'docs/objects/x'),
      true,
    ],
    [
      'one whose settings change',
      (p) => without(whole(p), 'docs/config'),
      (p) => only(whole(p), 'docs/config'),
      true,
    ],
    [
      'one that a renamed directory becomes',
      (p) => below('docs', { ...without(repository(p), 'refs/x'), 'heads/x': 'x' }),
      () => ({ 'docs/heads/x': null, 'docs/refs/x': 'x' }),
      true,
    ],
    [
      'one with parts that are links',
      () => ({}),
      (p) => ({
        ...below('docs', only(repository(p), 'HEAD', 'config')),
        'docs/objects': { link: '../src' },
        'docs/refs': { link: '../src' },
      }),
      true,
    ],
    [
      'one whose parts lie elsewhere',
      () => ({}),
      (p) => ({
        'other/config': `[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tfsmonitor = ${p}\n[extensions]\n\tworktreeConfig = true\n`,
        'other/objects/x': 'x',
        'other/refs/x': 'x',
        'docs/config.worktree': '[core]\n\tbare = false\n\tworktree = ..\n',
        'docs/HEAD': 'ref: refs/heads/main\n',
        'docs/commondir': '../other\n',
      }),
      true,
    ],
    [
      'one in another case',
      () => ({}),
      (p) => ({
        'docs/head': 'ref: refs/heads/main\n',
        'Docs/OBJECTS/x': 'x',
        'docs/Ref\u017f/x': 'x',
        'docs/config': repository(p)['config'] ?? '',
      }),
      false,
    ],
    [
      'one in names that other disks shorten',
      () => ({}),
      (p) => ({
        'docs/HE\u200cAD': 'ref: refs/heads/main\n',
        'docs/objects. /x': 'x',
        'docs/refs::$DATA': 'x',
        'docs/config': repository(p)['config'] ?? '',
      }),
      false,
    ],
  ]
  for (const [name, before, work, isRun] of cases)
    test(`RUN-17 GT-15 a directory that git takes for a repository is left out: ${name}`, async () => {
      using stage = new ResultStage()
      const trap = new Trap(stage.directory)
      stage.write(stage.root, before(trap.program))
      stage.git('add', '-A')
      stage.git('commit', '-q', '--allow-empty', '-m', 'before')
      stage.begin()
      stage.work({ ...work(trap.program), 'a.txt': 'b\n' })
      plainly(stage, join(stage.workspace, 'docs'), 'status')
      if (isRun) assert.ok(trap.sprung(), 'the control: git runs the program')
      const received = await stage.receiveResult()
      const branch = await makeBranch(await stage.repository(), received, {
        name: 'agentpod/x-1',
        message: 'm',
        coAuthor: undefined,
        withGated: false,
        now: NOW,
      })
      assert.ok(branch)
      await applyChanges(await stage.repository(), { from: branch.from, to: branch.tree })
      assert.equal(readFileSync(join(stage.root, 'a.txt'), 'utf8'), 'b\n')
      const changed = stage.git('diff', '--name-only', 'main', 'agentpod/x-1').split('\n')
      assert.deepEqual(
        changed.filter((path) => /^(docs|Docs)\//.test(path) && path !== 'docs/heads/x'),
        [],
      )
      if (existsSync(join(stage.root, 'docs'))) plainly(stage, join(stage.root, 'docs'), 'status')
      assert.ok(!trap.sprung(), 'nothing runs here')
    })

  test('RUN-17 GT-15 two halves of a repository in two results that are both taken are left out', async () => {
    using stage = new ResultStage()
    const trap = new Trap(stage.directory)
    const parts = whole(trap.program)
    for (const [i, names] of [
      ['docs/HEAD', 'docs/config'],
      ['docs/objects/x', 'docs/refs/x'],
    ].entries()) {
      stage.begin()
      stage.work({ ...only(parts, ...names), [`${i}.txt`]: 'x' })
      const received = await stage.receiveResult()
      const gated = received.gate.map(({ path }) => path)
      await applyChanges(await stage.repository(), {
        from: received.from,
        to: received.tree,
        without: gated,
        alsoObjects: [join(stage.directory, `scratch-${i + 1}`, 'quarantine.git/objects')],
      })
    }
    assert.ok(existsSync(join(stage.root, '0.txt')) && existsSync(join(stage.root, 'docs/refs/x')))
    plainly(stage, join(stage.root, 'docs'), 'status')
    assert.ok(!trap.sprung())
    stage.write(stage.root, only(parts, 'docs/HEAD'))
    plainly(stage, join(stage.root, 'docs'), 'status')
    assert.ok(trap.sprung(), 'the control')
  })

  test('GT-15 a file that is called head and is no repository is taken as any other', async () => {
    using stage = new ResultStage()
    stage.work({ 'src/HEAD': 'a heading\n', 'lib/head/x': 'x', 'lib/objects/x': 'x', 'lib/refs/x': 'x' })
    assert.deepEqual((await stage.receiveResult()).gate, [])
  })
})

test('RUN-18 a directory that is swapped for a link while files are written leads nowhere', () => {
  using stage = new ResultStage({ 'd/f': 'x' })
  const [outside, inside, kept] = [
    join(stage.directory, 'outside'),
    join(stage.root, 'd'),
    join(stage.root, 'kept'),
  ]
  mkdirSync(outside)
  writeFileSync(join(outside, 'f'), 'theirs')
  using work = new WorkTree(stage.root)
  const seen = work.look('d/f')
  renameSync(inside, kept)
  symlinkSync(outside, inside)
  writeFileSync(join(stage.root, 'd/f'), 'through')
  assert.equal(readFileSync(join(outside, 'f'), 'utf8'), 'through', 'the control: a plain write follows it')
  const ready = join(stage.directory, 'ready')
  writeFileSync(ready, 'ours')
  assert.equal(work.settle(ready, 'd/f', seen), false)
  assert.equal(work.remove('d/f', seen), false)
  assert.deepEqual(work.look('d/f'), { kind: 'blocked', at: 'd' })
  assert.equal(readFileSync(join(outside, 'f'), 'utf8'), 'through')
  for (const path of ['../x', '/etc/x', 'a/../../x', '.git/config', 'a/.GIT/x', 'x\0y'])
    assert.throws(() => work.settle(ready, path, { kind: 'absent' }), path)
  assert.equal(realpathSync(inside), realpathSync(outside))
})
