import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { problemsIn } from '../toml/problem.ts'
import { devcontainerSource, parseDevcontainer } from './devcontainer-file.ts'
import { replaceContainerVariables } from './variables.ts'

const FILE = '.devcontainer/devcontainer.json'

/** The problems of a file, each on one line as a person sees it. */
function problemsOf(text: string): string[] {
  try {
    parseDevcontainer({ file: FILE, text })
    return []
  } catch (error) {
    const problems = problemsIn(error)
    if (!problems) throw error
    return problems.map(({ line, column, message, hint }) =>
      [`${line}:${column} ${message}`, ...(hint === undefined ? [] : [hint])].join(' | '),
    )
  }
}

const of = (...lines: readonly string[]): string => lines.join('\n')

describe('reading devcontainer.json', () => {
  test('DC-2: comments and trailing commas are allowed, and keys keep their order', () => {
    const text = of('\ufeff// one', '{', '  /* two */ "name": "x",', '  "image": "debian:12", // three', '}')
    const file = parseDevcontainer({ file: FILE, text })
    assert.deepEqual(Object.keys(file.raw), ['name', 'image'])
    assert.deepEqual(file.at(['image']), { line: 4, column: 12 })
    assert.deepEqual(devcontainerSource(file.properties), { kind: 'from-image', image: 'debian:12' })
    assert.deepEqual(file.notes, [])
  })

  test('DC-2: what the official command repairs in silence is an error with its position', () => {
    assert.deepEqual(problemsOf('{"image": "a" "name": "b"}'), ['1:15 a comma is missing here'])
    assert.deepEqual(problemsOf('{"image": "a"'), ['1:14 a closing } is missing here'])
    assert.deepEqual(problemsOf(''), ['1:1 a value is missing here'])
    assert.deepEqual(problemsOf('{"image": "a"} 1'), ['1:16 has text after its end'])
    assert.deepEqual(problemsOf('["image"]'), ['1:1 must be an object, not an array'])
    assert.deepEqual(problemsOf(of('{"image": "a",', ' "name": "b",', ' "name": "c"}')), [
      '3:2 name is already defined on line 2',
    ])
  })

  test('DC-3: an unknown property names the nearest one, at its line and column', () => {
    assert.deepEqual(problemsOf(of('{"image": "a",', '  "postCreateComand": "x",', '  "build.args": {}}')), [
      '2:3 unknown key postCreateComand | did you mean postCreateCommand?',
      '3:3 unknown key build.args',
    ])
    assert.deepEqual(problemsOf('{"image": "a", "extends": "../base"}'), [
      '1:16 unknown key extends | the specification has no extends; copy the properties into this file',
    ])
  })

  test('DC-3: for commands that use the project, an unknown property is a note at its line', () => {
    const text = of('{"image": "a",', '  "postCreateComand": "${localEnv:SECRET}",', '  "build.args": {}}')
    const file = parseDevcontainer({ file: FILE, text }, { isLenient: true })
    assert.deepEqual(file.raw, { image: 'a' })
    assert.deepEqual(file.properties, { image: 'a' })
    assert.deepEqual(
      file.notes.map(({ line, said }) => `${line} ${said}`),
      [
        '2 postCreateComand is not a property of devcontainer.json, and is not used; did you mean postCreateCommand?',
        '3 build.args is not a property of devcontainer.json, and is not used',
      ],
    )
    const lenient = (inner: string): unknown =>
      parseDevcontainer({ file: FILE, text: inner }, { isLenient: true })
    assert.throws(() => lenient('{"image": "a", "build": {"nonsense": 1}}'), /unknown key build\.nonsense/)
    assert.throws(() => lenient('{"image": 1}'), /image: must be a string/)
  })

  test('DC-3: values of another type are errors', () => {
    assert.deepEqual(
      problemsOf(
        of('{"image": "a", "waitFor": "postCreateComand",', '"privileged": "yes",', '"features": []}'),
      ),
      [
        '1:27 waitFor: must be "initializeCommand", "onCreateCommand", "updateContentCommand", "postCreateCommand", "postStartCommand" or "postAttachCommand", not "postCreateComand" | did you mean postCreateCommand?',
        '2:15 privileged: must be true or false, not a string',
        '3:13 features: must be an object, not an array',
      ],
    )
    assert.deepEqual(problemsOf('{"image": "a", "hostRequirements": {"memory": "8 GB"}}'), [
      '1:47 hostRequirements.memory: must be digits with tb, gb, mb or kb, like "8gb"',
    ])
    assert.deepEqual(problemsOf('{"image": "a", "forwardPorts": [70000]}'), [
      '1:33 forwardPorts.0: must be a port from 0 to 65535, or "host:port"',
    ])
    assert.deepEqual(problemsOf('{"image": "a", "containerEnv": {"A": null}}'), [
      '1:38 containerEnv.A: must be a string, not null',
    ])
  })

  test('DC-3: a file without a source, and with contradicting ones, is an error', () => {
    assert.deepEqual(problemsOf('{"name": "x"}'), [
      '1:1 names no image, build.dockerfile or dockerComposeFile | add "image": "debian:12"',
    ])
    assert.deepEqual(problemsOf('{"build": {"args": {}}}'), [
      '1:11 build: has no dockerfile | add "dockerfile": "Dockerfile"',
    ])
    assert.deepEqual(
      problemsOf(
        of(
          '{"image": "a",',
          '"build": {"dockerfile": "D"},',
          '"dockerComposeFile": "c.yml",',
          '"service": "s", "workspaceFolder": "/w"}',
        ),
      ),
      [
        '2:1 build: the container is already made from image | keep one of image and dockerComposeFile and build',
        '3:1 dockerComposeFile: the container is already made from image | keep one of image and dockerComposeFile and build',
      ],
    )
    assert.deepEqual(problemsOf('{"image": "a", "workspaceMount": "type=volume,target=/w"}'), [
      '1:16 workspaceMount: needs the key workspaceFolder | add "workspaceFolder" with the target of the mount',
    ])
    assert.deepEqual(problemsOf('{"dockerComposeFile": "c.yml"}'), [
      '1:23 dockerComposeFile: needs the key service: the service that people work in',
      '1:23 dockerComposeFile: needs the key workspaceFolder: the path of the project in the service',
    ])
  })

  test('DC-2: old properties are accepted, moved as the official command does, and named', () => {
    const { raw, notes, properties } = parseDevcontainer({
      file: FILE,
      text: of(
        '{"dockerFile": "Dockerfile", "context": "..",',
        '"extensions": ["b"], "settings": {"x": 1, "y": 1}, "devPort": 1,',
        '"customizations": {"vscode": {"extensions": ["a"], "settings": {"x": 2}}}}',
      ),
    })
    assert.deepEqual(raw['customizations'], {
      vscode: { extensions: ['a', 'b'], settings: { x: 2, y: 1 }, devPort: 1 },
    })
    assert.deepEqual(
      notes.map(({ line, said }) => [line, said.split(' ')[0]]),
      [
        [1, 'dockerFile'],
        [1, 'context'],
        [2, 'extensions'],
        [2, 'settings'],
        [2, 'devPort'],
      ],
    )
    assert.deepEqual(devcontainerSource(properties), {
      kind: 'from-dockerfile',
      dockerfile: 'Dockerfile',
      context: '..',
      args: {},
      cacheFrom: [],
      options: [],
    })
  })

  test('DC-4: customizations.agentpod is checked like agentpod.toml', () => {
    const with_ = (text: string): string =>
      `{"image": "a",\n"customizations": {"vscode": {"any": 1}, "agentpod": ${text}}}`
    assert.deepEqual(problemsOf(with_('{"resources": {"memory": "8GB"}}')), [])
    assert.deepEqual(problemsOf(with_('{"resources": {"memroy": "8GB"}}')), [
      '2:69 unknown key customizations.agentpod.resources.memroy | did you mean memory?',
    ])
    assert.deepEqual(problemsOf(with_('{"environment": {"image": "debian:12"}}')), [
      '2:71 unknown key customizations.agentpod.environment.image',
    ])
  })
})

describe('a hostile devcontainer.json', () => {
  test('DC-5: is refused for its size, depth, number of values and keys', () => {
    assert.match(problemsOf(`{"name": "${'x'.repeat(1 << 20)}"}`)[0] ?? '', /1:1 is larger than 1048576/)
    assert.match(problemsOf('['.repeat(500_000))[0] ?? '', /is nested deeper than 64 levels/)
    assert.match(problemsOf(`[${'0,'.repeat(200_000)}]`)[0] ?? '', /has more than 100000 values/)
    assert.deepEqual(problemsOf('{"image": "a", "customizations": {"x": {"__proto__": {"y": 1}}}}'), [
      '1:41 a key of this name is not allowed',
    ])
    assert.equal(({} as { y?: number }).y, undefined)
    assert.equal(problemsOf(`{"image": "a"${', "image": "b"'.repeat(60_000)}}`).length, 20)
    assert.deepEqual(problemsOf('{"image": "a", "containerEnv": {"A\\u0000": "b"}}').length, 1)
    assert.deepEqual(problemsOf('{"image": "a", "containerEnv": {"A": "b\\u0000"}}'), [
      '1:38 containerEnv.A: has a NUL byte',
    ])
    const many = Object.fromEntries(Array.from({ length: 101 }, (_, n) => [`ghcr.io/o/f/x${n}`, {}]))
    assert.deepEqual(problemsOf(JSON.stringify({ image: 'a', features: many })), [
      '1:25 features: has more than 100 entries',
    ])
  })

  test('DC-5: control characters of keys do not reach the terminal', () => {
    const [line = ''] = problemsOf('{"image": "a", "\\u001b[2J\\u202eevil": 1}')
    assert.match(line, /^1:16 unknown key /)
    // biome-ignore lint/suspicious/noControlCharactersInRegex: characters that must not be there
    assert.doesNotMatch(line, /[\u0000-\u001f\u202e]/)
  })

  test('DC-5: many variables without an end, and many of this machine, take no long time', () => {
    const fileWith = (part: string): string =>
      `{"image": "a", "customizations": {"x": "${part.repeat(Math.floor(900_000 / part.length))}"}}`
    for (const part of ['${', '${containerEnv:a:b:', '${\\n']) {
      const { raw } = parseDevcontainer({ file: FILE, text: fileWith(part) })
      assert.deepEqual(replaceContainerVariables(raw, {}, FILE), raw)
    }
    assert.deepEqual(problemsOf(fileWith('${env:a}')), ['1:1 reads variables of this machine over 256 times'])
  })

  test('a positive control: the same shapes within the limits are read', () => {
    assert.deepEqual(problemsOf(`{"image": "a", "name": "${'x'.repeat(30_000)}"}`), [])
    const deep = `${'{"a":'.repeat(60)}1${'}'.repeat(60)}`
    assert.deepEqual(problemsOf(`{"image": "a", "customizations": {"x": ${deep}}}`), [])
    assert.deepEqual(problemsOf('{"image": "a", "customizations": {"x": {"constructor": 1}}}'), [])
  })
})
