import assert from 'node:assert/strict'
import { inside } from './expect.mjs'

export const cases = [
  [
    'git',
    async ({ shared }) => {
      const path = '/home/user/repository'
      if (shared.git) {
        await shared.git.init(path, { initialBranch: 'main' })
        await shared.git.configureUser('A Person', 'person@example.org')
        await shared.files.write(`${path}/a.txt`, 'a')
        await shared.git.add(path)
        await shared.git.commit(path, 'first')
        assert.equal((await shared.git.status(path)).currentBranch, 'main')
      } else {
        await inside(
          shared,
          `git init -b main ${path} && cd ${path} && echo a > a.txt && git add . && git -c user.name=A -c user.email=a@b commit -m first`,
        )
      }
      assert.match(await inside(shared, `git -C ${path} log --oneline`), /^[0-9a-f]+ first$/)
    },
  ],
]
