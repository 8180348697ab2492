// Does what `agentpod run claude "..."` does: an agent works on a copy of the repository in the current
// directory, and its changes come back as a branch. The server has to be running: `agentpod ls` starts it.
import { followRuns, makeRunBranch, openWorkbench, startAgents } from 'agentpod/workbench'

const [agent = 'claude', prompt = 'fix the failing test'] = process.argv.slice(2)
const bench = openWorkbench()

const { runs, repo, template } = await startAgents(bench, { agents: [agent], prompt, timeMs: 30 * 60_000 })

const ended = await followRuns(runs, {
  onEvent: (_run, { body }) => {
    if (body.type === 'message' && body.from === 'agent') process.stdout.write(body.text)
  },
})

for (const run of ended) {
  // Nobody is asked here, so files that would run later on this machine are left out of the branch.
  const { branch, leftOut } = await makeRunBranch(bench, repo, run, { template })
  console.log(`\n${run.info.outcome}: ${branch ?? 'no branch'}`)
  for (const { path, why } of leftOut) console.log(`left out: ${path} (${why})`)
}
