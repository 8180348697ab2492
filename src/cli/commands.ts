/** Every command with its one line; the rest of a command is loaded when it is called. */
import type { CommandEntry } from './command.ts'

/** Commands that answer with the exit code of the program they ran. */
export const PASS_THROUGH: ReadonlySet<string> = new Set(['run', 'exec', 'shell', 'test', 'dev'])

export const COMMANDS: Readonly<Record<string, CommandEntry>> = {
  run: {
    summary: 'Run agents, or a command, on a copy of this repository',
    load: () => import('./commands/run.ts'),
  },
  provider: {
    summary: 'List the providers, and check one of them',
    load: () => import('./commands/provider.ts'),
  },
  runs: {
    summary: 'List, show and remove runs of agents',
    load: () => import('./commands/runs.ts'),
  },
  follow: {
    summary: 'Watch running agents, and make their branches at the end',
    load: () => import('./commands/follow.ts'),
  },
  send: { summary: 'Give an agent more to do', load: () => import('./commands/send.ts') },
  answer: { summary: 'Answer a question of an agent', load: () => import('./commands/answer.ts') },
  attach: {
    summary: 'Take over from an agent, or open a shell beside it',
    load: () => import('./commands/attach.ts'),
  },
  cancel: { summary: 'Stop running agents', load: () => import('./commands/cancel.ts') },
  diff: { summary: 'Show what an agent changed', load: () => import('./commands/diff.ts') },
  apply: {
    summary: 'Write what an agent changed into your files, without a commit',
    load: () => import('./commands/apply.ts'),
  },
  merge: { summary: 'Merge what an agent changed', load: () => import('./commands/merge.ts') },
  branch: {
    summary: 'Make, list and clean up branches of agents',
    load: () => import('./commands/branch.ts'),
  },
  compare: {
    summary: 'Compare runs, test each, and pick one',
    load: () => import('./commands/compare.ts'),
  },
  shell: {
    summary: 'Open a terminal in a sandbox, or in a new one on a copy of this directory',
    load: () => import('./commands/shell.ts'),
  },
  test: {
    summary: 'Run the tests of this project in a new sandbox',
    load: () => import('./commands/test.ts'),
  },
  dev: {
    summary: 'Run this project for development, with its services and forwarded ports',
    load: () => import('./commands/dev.ts'),
  },
  build: {
    summary: 'Build the environment of this project',
    load: () => import('./commands/build.ts'),
  },
  image: {
    summary: 'Pull, list, inspect, remove and push container images',
    load: () => import('./commands/image.ts'),
  },
  init: {
    summary: 'Write an agentpod.toml for this project, with comments',
    load: () => import('./commands/init.ts'),
  },
  prune: {
    summary: 'Remove the least recently used layers',
    load: () => import('./commands/prune.ts'),
  },
  create: { summary: 'Create a sandbox and print its id', load: () => import('./commands/create.ts') },
  exec: { summary: 'Run a command in a sandbox', load: () => import('./commands/exec.ts') },
  ls: { summary: 'List sandboxes', load: () => import('./commands/ls.ts') },
  logs: { summary: 'Show the output of a process in a sandbox', load: () => import('./commands/logs.ts') },
  cp: { summary: 'Copy files and directories in or out', load: () => import('./commands/cp.ts') },
  stats: { summary: 'Show the resource usage of a sandbox', load: () => import('./commands/stats.ts') },
  extend: { summary: 'Give a sandbox more time', load: () => import('./commands/extend.ts') },
  pause: { summary: 'Pause sandboxes; their memory is kept', load: () => import('./commands/pause.ts') },
  resume: { summary: 'Resume paused sandboxes', load: () => import('./commands/resume.ts') },
  stop: {
    summary: 'Stop sandboxes; their files are kept',
    load: () => import('./commands/stop.ts'),
  },
  start: { summary: 'Start stopped sandboxes', load: () => import('./commands/start.ts') },
  snapshot: {
    summary: 'Create, list, remove, export and import snapshots',
    load: () => import('./commands/snapshot.ts'),
  },
  group: {
    summary: 'List, pause, resume, stop, start, snapshot, fork and destroy groups of sandboxes',
    load: () => import('./commands/group.ts'),
  },
  volume: {
    summary: 'Create, list, inspect and remove volumes, which outlive sandboxes',
    load: () => import('./commands/volume.ts'),
  },
  restore: {
    summary: 'Create a sandbox from a snapshot and print its id',
    load: () => import('./commands/restore.ts'),
  },
  fork: { summary: 'Make copies of a sandbox', load: () => import('./commands/fork.ts') },
  destroy: { summary: 'Destroy sandboxes', load: () => import('./commands/destroy.ts') },
  port: {
    summary: 'Show the address of a port in a sandbox, or forward it to this machine',
    load: () => import('./commands/port.ts'),
  },
  allow: {
    summary: 'Allow or deny a running sandbox a host',
    load: () => import('./commands/allow.ts'),
  },
  policy: {
    summary: 'Show and explain network rules; approve what a project asks for',
    load: () => import('./commands/policy.ts'),
  },
  net: {
    summary: 'Show allowed and refused connections of a sandbox',
    load: () => import('./commands/net.ts'),
  },
  secret: {
    summary: 'Store secrets outside sandboxes; sandboxes get placeholders',
    load: () => import('./commands/secret.ts'),
  },
  preset: {
    summary: 'Show and set the hosts that tools need',
    load: () => import('./commands/preset.ts'),
  },
  config: {
    summary: 'Check and explain agentpod.toml; print its schema',
    load: () => import('./commands/config.ts'),
  },
  devcontainer: {
    summary: 'Show what devcontainer.json says, as the official command reads it',
    load: () => import('./commands/devcontainer.ts'),
  },
  audit: {
    summary: 'Export the audit log or the network log as JSON lines',
    load: () => import('./commands/audit.ts'),
  },
  key: { summary: 'Create, list and revoke API keys', load: () => import('./commands/key.ts') },
  context: {
    summary: 'Choose the server that commands talk to',
    load: () => import('./commands/context.ts'),
  },
  completion: { summary: 'Print completions for a shell', load: () => import('./commands/completion.ts') },
  e2b: {
    summary: 'Print shell variables that point E2B’s SDKs at this server',
    load: () => import('./commands/e2b.ts'),
  },
  serve: { summary: 'Run the server in the foreground', load: () => import('./commands/serve.ts') },
  server: { summary: 'Show or stop the background server', load: () => import('./commands/server.ts') },
  doctor: {
    summary: 'Check this machine and list what is missing',
    load: () => import('./commands/doctor.ts'),
  },
  backup: {
    summary: 'Back up or restore the state directory',
    load: () => import('./commands/backup.ts'),
  },
  reset: {
    summary: 'Destroy everything and remove the state directory',
    load: () => import('./commands/reset.ts'),
  },
  version: { summary: 'Show versions', load: () => import('./commands/version.ts') },
}
