import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { memoryTree } from '../testing/memory-tree.ts'
import { chooseDevcontainer, devcontainerFiles, devcontainerLockPath } from './locate.ts'

const DEFAULT = '.devcontainer/devcontainer.json'
const PYTHON = '.devcontainer/python/devcontainer.json'

function treeWith(...paths: readonly string[]): ReturnType<typeof memoryTree> {
  return memoryTree(Object.fromEntries(paths.map((path) => [path, '{}'])))
}

describe('where devcontainer.json is', () => {
  test('DC-1: all three places are found, in the order of the specification', () => {
    const tree = treeWith(PYTHON, '.devcontainer.json', DEFAULT, '.devcontainer/a/b/devcontainer.json', 'x')
    assert.deepEqual(devcontainerFiles(tree), [DEFAULT, '.devcontainer.json', PYTHON])
    for (const path of [DEFAULT, '.devcontainer.json', PYTHON])
      assert.equal(chooseDevcontainer(treeWith(path)), path)
    assert.equal(chooseDevcontainer(treeWith('README.md')), undefined)
  })

  test('DC-1: several files need a choice, by name or by path', () => {
    const tree = treeWith(DEFAULT, PYTHON, 'sub/.devcontainer.json')
    assert.throws(() => chooseDevcontainer(tree), {
      code: 'invalid_argument',
      message: `this project has 2 devcontainer.json files: ${DEFAULT}, ${PYTHON}`,
      hint: 'choose one: --devcontainer python',
    })
    assert.equal(chooseDevcontainer(tree, 'python'), PYTHON)
    assert.equal(chooseDevcontainer(tree, './.devcontainer/python/'), PYTHON)
    assert.equal(chooseDevcontainer(tree, DEFAULT), DEFAULT)
    assert.equal(chooseDevcontainer(tree, 'sub/.devcontainer.json'), 'sub/.devcontainer.json')
  })

  test('a choice that is no file names the files', () => {
    const tree = treeWith(DEFAULT, 'package.json')
    assert.throws(() => chooseDevcontainer(tree, 'go\u001b[2J'), {
      message: 'no devcontainer.json for "go\\\\u001b[2J"',
      hint: `there are: ${DEFAULT}`,
    })
    assert.throws(() => chooseDevcontainer(tree, 'package.json'), {
      message: /is not named devcontainer.json/,
    })
    assert.throws(() => chooseDevcontainer(tree, '../outside'), { message: /no devcontainer.json/ })
  })

  test('names with control characters are shown, not printed', () => {
    const hostile = '.devcontainer/\u001b[2J\u202e/devcontainer.json'
    assert.throws(
      () => chooseDevcontainer(treeWith(DEFAULT, hostile)),
      // biome-ignore lint/suspicious/noControlCharactersInRegex: characters that must not be there
      ({ message, hint }: Error & { hint: string }) => !/[\u0000-\u001f\u202e]/.test(message + hint),
    )
  })

  test('a link in the place of the folder is named, not followed', () => {
    assert.throws(() => chooseDevcontainer(treeWith('.devcontainer')), {
      message: '.devcontainer is a file or a symbolic link, and links are not followed',
    })
  })

  test('the lockfile is beside the file, and dotted as it is', () => {
    assert.equal(devcontainerLockPath(DEFAULT), '.devcontainer/devcontainer-lock.json')
    assert.equal(devcontainerLockPath('.devcontainer.json'), '.devcontainer-lock.json')
  })
})
