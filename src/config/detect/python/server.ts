/** Python web servers: the framework, and the module of the application. */

import { shellWord } from '../../../util/shell/shell-word.ts'
import { type FileTree, joinPath, nameOf } from '../../file-tree.ts'
import type { FoundCommand } from '../finding.ts'
import { isIgnored } from '../project-files/ignored-directories.ts'
import { lineAt, readTextFile, shortQuote } from '../project-files/parsed-file.ts'
import { relativeTo } from '../project-files/paths.ts'
import type { PythonProject } from './project.ts'
import type { Requirement } from './requirements.ts'

export interface PythonServer {
  readonly dev: FoundCommand
  readonly start?: FoundCommand | undefined
  readonly port: number
  /** A program that it needs and no dependency brings. */
  readonly missing?: string | undefined
}

type Needs = ReadonlyMap<string, Requirement>

/** Usual file names of applications, most likely first. */
const FILES = [
  'main.py',
  'app.py',
  'server.py',
  'api.py',
  'asgi.py',
  'wsgi.py',
  'application.py',
  'run.py',
  '__init__.py',
  'streamlit_app.py',
]
const MOST_FILES = 60
const DEEPEST = 4

export function pythonServer(tree: FileTree, project: PythonProject, needs: Needs): PythonServer | undefined {
  return (
    django(tree, project, needs) ??
    asgi(tree, project, needs) ??
    flask(tree, project, needs) ??
    streamlit(tree, project, needs)
  )
}

function django(tree: FileTree, { directory }: PythonProject, needs: Needs): PythonServer | undefined {
  const manage = joinPath(directory, 'manage.py')
  if (!tree.has(manage) || !/django/i.test(readTextFile(tree, manage) ?? '')) return undefined
  const evidence = { file: manage, said: 'manage.py' }
  const wsgi = candidates(tree, directory).find((file) => nameOf(file) === 'wsgi.py')
  const start =
    wsgi !== undefined && needs.has('gunicorn')
      ? {
          run: `gunicorn ${moduleOf(directory, wsgi).name} --bind 0.0.0.0:8000`,
          evidence: { file: wsgi, said: 'wsgi.py' },
        }
      : undefined
  return { dev: { run: 'python manage.py runserver 0.0.0.0:8000', evidence }, start, port: 8000 }
}

const ASGI =
  /^(\w{1,60})\s{0,5}(?::\s{0,5}\w{1,60}\s{0,5})?=\s{0,5}(?:fastapi\.|starlette\.applications\.)?(?:FastAPI|Starlette|Litestar|Quart)\(/m
const ASGI_FACTORY = /^def (create_app|get_app|make_app|build_app|get_application|create_application)\(/m

function asgi(tree: FileTree, { directory }: PythonProject, needs: Needs): PythonServer | undefined {
  if (!['fastapi', 'starlette', 'litestar', 'quart'].some((name) => needs.has(name))) return undefined
  for (const file of candidates(tree, directory)) {
    const text = textOf(tree, file)
    const plain = ASGI.exec(text)
    const isMade = /\b(?:FastAPI|Starlette|Litestar|Quart)\(/.test(text)
    const match = plain ?? (isMade ? ASGI_FACTORY.exec(text) : null)
    if (!match) continue
    const { name, directory: from } = moduleOf(directory, file)
    const target = `${name}:${match[1]}${plain ? '' : ' --factory'}${from === '' ? '' : ` --app-dir ${from}`}`
    const evidence = { file, line: lineAt(text, match.index), said: shortQuote(match[0]) }
    const run = (flags: string): string => `uvicorn ${target}${flags} --host 0.0.0.0 --port 8000`
    const hasServer =
      needs.has('uvicorn') || needs.get('fastapi')?.extras.some((extra) => /^(?:standard|all)$/.test(extra))
    return {
      dev: { run: run(' --reload'), evidence },
      start: { run: run(''), evidence },
      port: 8000,
      ...(!hasServer && { missing: 'uvicorn' }),
    }
  }
  return undefined
}

function flask(tree: FileTree, { directory }: PythonProject, needs: Needs): PythonServer | undefined {
  if (!needs.has('flask')) return undefined
  for (const file of candidates(tree, directory)) {
    const text = textOf(tree, file)
    const match = /^(?:(\w{1,60})\s{0,5}=|.{0,40}?\w\s{0,5}=)\s{0,5}(?:flask\.)?Flask\(/m.exec(text)
    if (!match) continue
    const { name, directory: from } = moduleOf(directory, file)
    const evidence = { file, line: lineAt(text, match.index), said: shortQuote(match[0]) }
    const module = from === '' ? name : `${from}/${name}`
    const variable = match[1]
    const start =
      needs.has('gunicorn') && variable !== undefined
        ? {
            run: `gunicorn ${from === '' ? '' : `--chdir ${from} `}${name}:${variable} --bind 0.0.0.0:5000`,
            evidence,
          }
        : { run: `flask --app ${module} run --host 0.0.0.0 --port 5000`, evidence }
    return {
      dev: { run: `flask --app ${module} run --debug --host 0.0.0.0 --port 5000`, evidence },
      start,
      port: 5000,
    }
  }
  return undefined
}

function streamlit(tree: FileTree, { directory }: PythonProject, needs: Needs): PythonServer | undefined {
  if (!needs.has('streamlit')) return undefined
  const named = candidates(tree, directory)
  const others = tree
    .in(directory)
    .flatMap((name) => (name.endsWith('.py') ? [joinPath(directory, name)] : []))
  for (const file of [...named, ...others.slice(0, MOST_FILES)]) {
    const text = textOf(tree, file)
    const match = /^(?:import streamlit|from streamlit)\b/m.exec(text)
    if (!match) continue
    const run = `streamlit run ${shellWord(relativeTo(directory, file))} --server.address 0.0.0.0 --server.port 8501`
    const found = { run, evidence: { file, line: lineAt(text, match.index), said: match[0] } }
    return { dev: found, start: found, port: 8501 }
  }
  return undefined
}

function textOf(tree: FileTree, file: string): string {
  return (readTextFile(tree, file) ?? '').slice(0, 100_000)
}

function candidates(tree: FileTree, directory: string): readonly string[] {
  const found = tree.below(directory).filter((file) => {
    if (!file.endsWith('.py') || !FILES.includes(nameOf(file))) return false
    const parts = relativeTo(directory, file).split('/')
    return (
      parts.length <= DEEPEST &&
      parts.every((part) => /^[\w-]+(?:\.py)?$/.test(part)) &&
      !isIgnored(parts.slice(0, -1).join('/')) &&
      !/^tests?$/.test(parts[0] ?? '')
    )
  })
  const rank = (file: string): number =>
    relativeTo(directory, file).split('/').length * 100 + FILES.indexOf(nameOf(file))
  return found.toSorted((a, b) => rank(a) - rank(b) || (a < b ? -1 : 1)).slice(0, MOST_FILES)
}

/** A module as imports name it, and the directory where imports start if that is not the project. */
function moduleOf(directory: string, file: string): { readonly name: string; readonly directory: string } {
  const parts = relativeTo(directory, file).replace(/\.py$/, '').split('/')
  const path = parts.at(-1) === '__init__' ? parts.slice(0, -1) : parts
  const inSource = path[0] === 'src' && path.length > 1
  return { name: (inSource ? path.slice(1) : path).join('.'), directory: inSource ? 'src' : '' }
}
