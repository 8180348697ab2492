/** Leaves the repository in a state from which no branch can be made. */
import { inTurn, running, type Scenario } from './scenario.ts'

const AUTHOR = '-c user.name=Agent -c user.email=agent@example.com'

export const history: Scenario = (talk) =>
  inTurn(
    talk,
    [
      running(
        'I write a file and commit it.',
        `echo kept > kept.txt && git add -A && git ${AUTHOR} commit -m mine`,
      ),
      running('I rewrite the last commit.', `git ${AUTHOR} commit --amend --allow-empty -m rewritten`),
      running(
        'I go back in history.',
        'git reset --soft HEAD~1; git branch -f main HEAD; git checkout --orphan other',
      ),
      running('I remove the repository.', 'find .git -delete && echo removed'),
    ],
    () => 'I rewrote the history and removed the repository. Only kept.txt is new.',
  )
