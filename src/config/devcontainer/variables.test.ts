import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { devcontainerId, replaceContainerVariables, replaceLocalVariables } from './variables.ts'

/** How the official command finds variables. */
const OFFICIAL = /\$\{(.*?)\}/g

describe('variables', () => {
  test('are found where the official command finds them', () => {
    const parts = ['${', '}', 'a', '${containerEnv:X}', '\n', '$', '{', ':', '${containerEnv:Y', '\u2028']
    let seed = 7
    for (let round = 0; round < 2000; round++) {
      const text = Array.from({ length: 8 }, () => {
        seed = (seed * 1103515245 + 12345) % 2 ** 31
        return parts[seed % parts.length]
      }).join('')
      const wanted = text.replaceAll(OFFICIAL, (match, content: string) => {
        const [variable, name] = content.split(':')
        return variable === 'containerEnv' && name !== undefined ? 'V' : match
      })
      const env = new Proxy(
        {},
        { getOwnPropertyDescriptor: () => ({ value: 'V', configurable: true }), get: () => 'V' },
      )
      const hasNoName = [...text.matchAll(OFFICIAL)].some(([, content]) => content === 'containerEnv')
      if (!hasNoName) assert.equal(replaceContainerVariables(text, env, 'f'), wanted, JSON.stringify(text))
    }
  })

  test('a variable without a name is an error, and inherited names are not variables', () => {
    const values = { file: 'f', env: {}, localWorkspaceFolder: '/w', containerWorkspaceFolder: '/c' }
    assert.throws(() => replaceLocalVariables('${localEnv}', values), { message: /names no variable/ })
    assert.equal(replaceLocalVariables('${localEnv:constructor}-${localEnv:__proto__:d}', values), '-d')
  })

  test('the id is the same for the same labels in any order', () => {
    const id = devcontainerId({ b: '2', a: '1' })
    assert.equal(id, devcontainerId({ a: '1', b: '2' }))
    assert.notEqual(id, devcontainerId({ a: '1', b: '3' }))
    assert.match(id, /^[0-9a-v]{52}$/)
  })
})
