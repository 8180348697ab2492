import { lstat, mkdir, stat } from 'node:fs/promises'
import { basename, join, posix, resolve } from 'node:path'
import type { Sandbox } from '../../client/sandbox.ts'
import { invalid, isAgentPodError } from '../../core/error.ts'
import { bareRepositories } from '../../sync/bare-repository.ts'
import { isText, listFiles, NOT_TEXT } from '../../sync/project-files.ts'
import { packFiles } from '../../sync/tar.ts'
import { type Extracted, extract, extractFile } from '../../sync/untar.ts'
import { showHidden } from '../../util/hidden-characters.ts'
import { JSON_OPTION } from '../args/options.ts'
import type { Command, CommandContext } from '../command.ts'
import { fileError } from '../output/file-error.ts'
import { safeOutput } from '../output/safe-output.ts'
import { openFile } from '../sandbox/open-file.ts'
import { type ChosenSandbox, namedOrOwn } from '../sandbox/project-sandbox.ts'

export const command: Command = {
  usage:
    'agentpod cp SOURCE TARGET, one of them [NAME]:PATH, the other a path here or - for stdin and stdout',
  examples: [
    'agentpod cp ./src box:/home/user/src',
    'agentpod cp box:/home/user/out.txt .',
    'agentpod cp box:/home/user/out.txt - | wc -l',
    'agentpod cp --user root conf box:/etc/conf',
    'agentpod cp :dist/app.js .        from the sandbox of this project',
  ],
  options: { user: { value: 'USER', help: 'act as this user inside' }, ...JSON_OPTION },
  words: { min: 2, max: 2 },
  async run(ctx, parsed) {
    const from = place(parsed.word(0))
    const to = place(parsed.word(1))
    if ((from.sandbox === undefined) === (to.sandbox === undefined)) {
      throw invalid('copy.sides', 'one of the two has to be NAME:PATH, the other a local path', command.usage)
    }
    const isJson = parsed.has('json')
    const user = parsed.value('user')
    const inside = from.sandbox === undefined ? to : from
    const chosen = await namedOrOwn(ctx, inside.sandbox || undefined, { usage: 'NAME:PATH', isJson })
    const { sandbox, taken } = chosen
    const path = pathIn(chosen, inside.path)
    if (from.sandbox === undefined && from.path === '-') return fromStdin(ctx, sandbox, path, user)
    if (to.sandbox === undefined && to.path === '-') return toStdout(ctx, sandbox, path, user)
    const result =
      to.sandbox === undefined
        ? await copyOut(sandbox, path, to.path, user)
        : await copyIn(sandbox, from.path, path, user)
    report(ctx, { ...result, ...taken }, isJson)
    return 0
  },
}

/** A relative path in the project's sandbox is below the directory that the user is in. */
function pathIn({ workdir }: ChosenSandbox, path: string): string {
  if (workdir === undefined || path.startsWith('/')) return path
  const whole = posix.join(workdir, path)
  return path.endsWith('/') && !whole.endsWith('/') ? `${whole}/` : whole
}

async function fromStdin(ctx: CommandContext, sandbox: Sandbox, to: string, user?: string): Promise<number> {
  if (to.endsWith('/')) throw invalid('copy.target', 'name the target file: standard input has no name')
  await sandbox.writeFile(to, ctx.terminal.stdin, { user })
  return 0
}

async function toStdout(ctx: CommandContext, sandbox: Sandbox, from: string, user?: string): Promise<number> {
  const out = safeOutput(ctx.terminal.stdout)
  const content = await sandbox.readFile(from, { user })
  for await (const chunk of content as AsyncIterable<Buffer>) await out.write(chunk)
  await out.end()
  return 0
}

interface Place {
  /** Empty: the sandbox of the project. Undefined: here. */
  readonly sandbox: string | undefined
  readonly path: string
}

/** `NAME:PATH` or `:PATH`; a path with a slash before the colon is a path here. */
function place(text: string): Place {
  const match = /^([^/:]*):(.*)$/.exec(text)
  return match ? { sandbox: match[1], path: match[2] || '.' } : { sandbox: undefined, path: text }
}

async function copyIn(
  sandbox: Sandbox,
  source: string,
  to: string,
  user: string | undefined,
): Promise<Extracted> {
  const info = await lstat(source).catch((error: unknown) => {
    throw fileError(error, { reason: 'copy.source', what: 'cannot read', path: source })
  })
  const existing = await sandbox.stat(to, user).catch((error) => {
    if (isAgentPodError(error, 'not_found')) return undefined
    throw error
  })
  const isInto = existing?.type === 'directory' || to.endsWith('/')
  const target = isInto ? join(to, basename(resolve(source))) : to
  if (info.isDirectory()) {
    const skipped: Extracted['skipped'] = []
    const leaveOut = (path: string): void => void skipped.push({ path, why: NOT_TEXT })
    const files = (await listFiles(source)).filter((path) => isText(source, path, leaveOut))
    await sandbox.unpack(target, packFiles(source, files), { user })
    return { files: files.length, bytes: 0, skipped }
  }
  if (!info.isFile() && !info.isSymbolicLink())
    throw invalid('copy.source', `${source} is neither a file nor a directory`)
  const content = await openFile(source, 'copy.source')
  const { size, mode } = await stat(source)
  await sandbox.writeFile(target, content, { user })
  if (mode & 0o111) await sandbox.exec('chmod', { args: ['+x', '--', target], user }).wait()
  return { files: 1, bytes: size, skipped: [] }
}

async function copyOut(
  sandbox: Sandbox,
  from: string,
  target: string,
  user: string | undefined,
): Promise<Copied> {
  const info = await sandbox.stat(from, user)
  const existing = await stat(target).catch(() => undefined)
  const name = basename(info.path) || 'root'
  const place = existing?.isDirectory() || target.endsWith('/') ? join(target, name) : target
  const tar = await sandbox.pack(from, { user })
  if (info.type !== 'directory') return extractFile(tar, place)
  await mkdir(place, { recursive: true })
  const extracted = await extract(tar, place)
  return { ...extracted, repositories: await repositoriesIn(place) }
}

interface Copied extends Extracted {
  /** Copied directories that git takes for repositories. */
  readonly repositories?: readonly string[]
}

async function repositoriesIn(directory: string): Promise<string[]> {
  const files = await listFiles(directory)
  const whole = files.flatMap((path) => /^(.*\/)?\.git(?=\/|$)/i.exec(path)?.[0] ?? [])
  const bare = [...bareRepositories(files.filter((path) => !/(^|\/)\.git\//i.test(path)))]
  return [...new Set([...whole, ...bare])].map((path) => join(directory, path))
}

function report({ terminal }: CommandContext, result: Copied, isJson: boolean): void {
  if (isJson) {
    terminal.out(JSON.stringify(result))
    return
  }
  for (const { path, why } of result.skipped) terminal.say(`left out ${showHidden(path)}: ${why}`)
  // SECURITY: GT-15. The user asked for the copy, so it is made, with a warning.
  for (const path of result.repositories ?? [])
    terminal.say(
      `note: ${showHidden(path)} is a git repository from the sandbox: its settings can make git run programs`,
    )
}
