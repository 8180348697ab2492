/** Which compose files are used, and which of the project's files their services get. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { type FileTree, fileTree } from '../../config/file-tree.ts'
import { NO_WISH } from '../../config/grants/combine.ts'
import { NO_PRIVILEGES } from '../../config/grants/privileges.ts'
import { listProject } from '../../sync/project-files.ts'
import { buildProjectDockerfile, type ProjectDockerfile } from '../dockerfile/project-dockerfile.ts'
import { treeOf } from '../environment/detect-project.ts'
import type { Workbench } from '../workbench.ts'
import { composeRequest } from './approve-compose.ts'
import { checkMembers, type GroupProject, memberFile } from './member-files.ts'
import { type ProjectCompose, projectCompose } from './project-compose.ts'

const root = mkdtempSync(join(tmpdir(), 'agentpod-compose-'))
after(() => rmSync(root, { recursive: true, force: true }))

const treeWith = (text: string): FileTree =>
  fileTree(['compose.yaml'], (file) => (file === 'compose.yaml' ? text : undefined))
const silent = (text: string): void => assert.fail(`unexpected note: ${text}`)

/** A repository with an ignored .env, and tracked links to it and to a tracked file. */
async function repository(compose: string): Promise<GroupProject> {
  const directory = mkdtempSync(join(root, 'project-'))
  const git = (...args: string[]): void =>
    void execFileSync('git', ['-c', 'user.name=a', '-c', 'user.email=a@b', ...args], { cwd: directory })
  git('init', '-q')
  mkdirSync(join(directory, 'conf'))
  const texts = {
    'compose.yaml': compose,
    '.gitignore': '.env\n',
    '.env': 'PW=hidden\n',
    'conf/open.env': 'PW=open\n',
    Dockerfile: 'FROM base\n',
  }
  for (const [file, text] of Object.entries(texts)) writeFileSync(join(directory, file), text)
  symlinkSync('.env', join(directory, 'hidden.link'))
  symlinkSync('conf/open.env', join(directory, 'open.link'))
  symlinkSync('.git', join(directory, 'git.link'))
  symlinkSync('Dockerfile', join(directory, 'open.docker'))
  git('add', '.')
  return {
    directory,
    name: 'project',
    files: await listProject({ directory, exclude: [], env: process.env }),
  }
}

const WITH = (member: string, more = ''): string =>
  `services:\n  web: { build: . }\n  db: { image: x, ${member} }\n${more}`

/** A workbench that fails where the server would be asked. */
const offline = {
  home: { root: mkdtempSync(join(root, 'home-')) },
  env: {},
  client: () => Promise.reject(new Error('offline')),
} as unknown as Workbench

const dockerfileOf = (file: string): ProjectDockerfile => ({
  dockerfile: { file, context: '', target: undefined, args: {}, images: [] },
  wish: NO_WISH,
  evidence: { file: 'compose.yaml', line: 2, said: 'build' },
})

async function opened(text: string): Promise<{ project: GroupProject; compose: ProjectCompose }> {
  const project = await repository(text)
  const compose = projectCompose(treeOf(project), {}, silent)
  assert.ok(compose)
  return { project, compose }
}

test('CMP-10 CF-05: no file that git ignores reaches a service, by name or through a link', async () => {
  const secret = (file: string): string => WITH('secrets: [s]', `secrets: { s: { file: ${file} } }`)
  const config = (file: string): string => WITH('configs: [s]', `configs: { s: { file: ${file} } }`)
  const mount = (file: string): string => WITH(`volumes: ["${file}:/m"]`)
  const hidden = [
    ...['./.env', './.git/config', 'hidden.link', 'git.link/config'].flatMap((file) => [
      secret(file),
      config(file),
    ]),
    mount('./hidden.link'),
  ]
  for (const text of hidden) {
    const { project, compose } = await opened(text)
    assert.throws(
      () => checkMembers(project, { compose: compose.compose, main: 'web' }),
      /compose\.yaml:3: service db: ".*" is not a file that sandboxes of the project get/,
      text,
    )
  }
  const open = ['conf/open.env', 'open.link'].flatMap((file) => [
    secret(file),
    config(file),
    mount(`./${file}`),
  ])
  for (const text of open) {
    const { project, compose } = await opened(text)
    checkMembers(project, { compose: compose.compose, main: 'web' })
    assert.equal(memberFile(project, compose.service, 'open.link').toString(), 'PW=open\n', text)
  }
})

test('CMP-10 CF-05: a Dockerfile is one that sandboxes get, not a link to a file that git ignores', async () => {
  const web = (dockerfile: string): string =>
    `services:\n  web: { build: { context: ., dockerfile: ${dockerfile} } }\n`
  for (const file of ['.env', 'hidden.link', 'git.link/config', '.git/config']) {
    const { project, compose } = await opened(web(file))
    assert.throws(
      () => checkMembers(project, { compose: compose.compose, main: 'web' }),
      /compose\.yaml:2: service web: .*(?:is not a file that sandboxes of the project get|there is no Dockerfile)/,
      file,
    )
    assert.deepEqual(composeRequest(compose, treeOf(project)).privileges.images, undefined, file)
    // The builder itself reads no such file either.
    await assert.rejects(buildProjectDockerfile(offline, project, dockerfileOf(file), {}), {
      reason: 'dockerfile.missing',
    })
  }
  const { project, compose } = await opened(web('open.docker'))
  checkMembers(project, { compose: compose.compose, main: 'web' })
  assert.deepEqual(composeRequest(compose, treeOf(project)).privileges, {
    ...NO_PRIVILEGES,
    images: ['base'],
    dockerfiles: ['open.docker'],
  })
  await assert.rejects(buildProjectDockerfile(offline, project, dockerfileOf('open.docker'), {}), /offline/)
})

test('CMP-10 CF-05: variables do not come from a file that git ignores, nor through a link', async () => {
  const variables = async (file: string): Promise<unknown> => {
    const { compose } = await opened(WITH(`env_file: [{ path: ${file}, required: false }]`))
    return compose.compose.services.find(({ name }) => name === 'db')?.environment
  }
  for (const file of ['.env', 'hidden.link']) assert.deepEqual(await variables(file), {}, file)
  for (const file of ['conf/open.env', 'open.link'])
    assert.deepEqual(await variables(file), { PW: 'open' }, file)
})

test('CMP-4 a file that cannot be honoured is an error if a service is the project, and a note if not', () => {
  const wrong = 'include: [other.yaml]\n'
  for (const service of [
    '{build: .}',
    '{image: x, volumes: [".:/app"]}',
    '{image: x, volumes: [{source: ./}]}',
  ])
    assert.throws(
      () => projectCompose(treeWith(`${wrong}services: {web: ${service}}`), {}, silent),
      (error: Error & { hint?: string }) =>
        /^compose\.yaml:\d+:\d+: /.test(error.message) && /--no-compose/.test(error.hint ?? ''),
      service,
    )
  for (const text of [
    `${wrong}services: {db: {image: x}}`,
    wrong,
    'services: [',
    `${'\n'.repeat(1000)}a: [`,
  ]) {
    const notes: string[] = []
    assert.equal(
      projectCompose(treeWith(text), {}, (note) => void notes.push(note)),
      undefined,
    )
    assert.match(notes.join('\n'), /^compose\.yaml:\d+:\d+: .*the services of the file do not run/s)
  }
})

test('CMP-6 a compose file of empty lines takes bounded time', () => {
  const began = process.cpuUsage()
  const notes: string[] = []
  projectCompose(
    treeWith(`services:\n  a: { image: x, privileged: true }${'\n'.repeat(100_000)}`),
    {},
    (note) => {
      notes.push(note)
    },
  )
  assert.equal(notes.length, 1)
  assert.ok(process.cpuUsage(began).user < 5_000_000)
})
