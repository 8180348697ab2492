/** Every command with its one line; the rest of a command is loaded when it is called. */
import type { Entry } from './command.ts'

/** Commands that answer with the exit code of the program they ran. */
export const PASS_THROUGH: ReadonlySet<string> = new Set(['run', 'exec', 'shell', 'test', 'dev'])

export const COMMANDS: Readonly<Record<string, Entry>> = {
  run: {
    summary: 'Put agents to work on copies of this repository, or run a command on one',
    load: () => import('./commands/run.ts'),
  },
  provider: {
    summary: 'List who makes sandboxes here, and check one of them',
    load: () => import('./commands/provider.ts'),
  },
  runs: {
    summary: 'List what agents worked on; show and remove runs',
    load: () => import('./commands/runs.ts'),
  },
  follow: {
    summary: 'Watch agents at work, and make their branches at the end',
    load: () => import('./commands/follow.ts'),
  },
  send: { summary: 'Give an agent more to do', load: () => import('./commands/send.ts') },
  answer: { summary: 'Answer a question of an agent', load: () => import('./commands/answer.ts') },
  attach: {
    summary: 'Take over from an agent, or open a shell beside it',
    load: () => import('./commands/attach.ts'),
  },
  cancel: { summary: 'Stop agents at work', load: () => import('./commands/cancel.ts') },
  diff: { summary: 'Show what an agent changed', load: () => import('./commands/diff.ts') },
  apply: {
    summary: 'Bring what an agent changed into your files, without a commit',
    load: () => import('./commands/apply.ts'),
  },
  merge: { summary: 'Merge what an agent changed', load: () => import('./commands/merge.ts') },
  branch: {
    summary: 'Make, list and clean up branches of agents',
    load: () => import('./commands/branch.ts'),
  },
  compare: {
    summary: 'Compare runs, with the project’s tests in each, and pick one',
    load: () => import('./commands/compare.ts'),
  },
  shell: {
    summary: 'Open a terminal in a sandbox, or in a new one on a copy of this directory',
    load: () => import('./commands/shell.ts'),
  },
  test: {
    summary: 'Run the tests of this project in a fresh sandbox',
    load: () => import('./commands/test.ts'),
  },
  dev: {
    summary: 'Run this project for development, with its services and its ports on this machine',
    load: () => import('./commands/dev.ts'),
  },
  build: {
    summary: 'Build the environment of this project',
    load: () => import('./commands/build.ts'),
  },
  init: {
    summary: 'Write agentpod.toml for this project, with the reasons',
    load: () => import('./commands/init.ts'),
  },
  prune: {
    summary: 'Remove built layers that were not used for longest',
    load: () => import('./commands/prune.ts'),
  },
  create: { summary: 'Create a sandbox and print its id', load: () => import('./commands/create.ts') },
  exec: { summary: 'Run a command in a sandbox', load: () => import('./commands/exec.ts') },
  ls: { summary: 'List sandboxes', load: () => import('./commands/ls.ts') },
  logs: { summary: 'Show the output of a process in a sandbox', load: () => import('./commands/logs.ts') },
  cp: { summary: 'Copy files and directories in or out', load: () => import('./commands/cp.ts') },
  stats: { summary: 'Show what a sandbox uses', load: () => import('./commands/stats.ts') },
  extend: { summary: 'Give a sandbox more time', load: () => import('./commands/extend.ts') },
  pause: { summary: 'Freeze sandboxes with their memory', load: () => import('./commands/pause.ts') },
  resume: { summary: 'Let paused sandboxes run on', load: () => import('./commands/resume.ts') },
  stop: {
    summary: 'End the processes of sandboxes and keep their files',
    load: () => import('./commands/stop.ts'),
  },
  start: { summary: 'Run stopped sandboxes again', load: () => import('./commands/start.ts') },
  snapshot: {
    summary: 'Take, list, remove, export and import snapshots of sandboxes',
    load: () => import('./commands/snapshot.ts'),
  },
  restore: {
    summary: 'Create a sandbox from a snapshot and print its id',
    load: () => import('./commands/restore.ts'),
  },
  fork: { summary: 'Make copies of a sandbox', load: () => import('./commands/fork.ts') },
  destroy: { summary: 'End sandboxes', load: () => import('./commands/destroy.ts') },
  port: {
    summary: 'Show the address of a port in a sandbox, or bring it to this machine',
    load: () => import('./commands/port.ts'),
  },
  allow: {
    summary: 'Let a living sandbox reach a host, or take it back',
    load: () => import('./commands/allow.ts'),
  },
  policy: {
    summary: 'Show and explain what a sandbox may reach; grant what a project asks for',
    load: () => import('./commands/policy.ts'),
  },
  net: {
    summary: 'Show what a sandbox reached and what was refused',
    load: () => import('./commands/net.ts'),
  },
  secret: {
    summary: 'Keep keys outside of sandboxes; they get placeholders',
    load: () => import('./commands/secret.ts'),
  },
  preset: {
    summary: 'Show and set which hosts tools need',
    load: () => import('./commands/preset.ts'),
  },
  config: {
    summary: 'Check agentpod.toml; print its schema for editors',
    load: () => import('./commands/config.ts'),
  },
  audit: {
    summary: 'Export who asked for what, and what sandboxes reached, as lines of JSON',
    load: () => import('./commands/audit.ts'),
  },
  key: { summary: 'Make, list and revoke keys to the API', load: () => import('./commands/key.ts') },
  context: {
    summary: 'Choose which server commands talk to',
    load: () => import('./commands/context.ts'),
  },
  completion: { summary: 'Print completions for a shell', load: () => import('./commands/completion.ts') },
  e2b: {
    summary: 'Point the SDKs of E2B at this server: print variables for a shell',
    load: () => import('./commands/e2b.ts'),
  },
  serve: { summary: 'Run the server in the foreground', load: () => import('./commands/serve.ts') },
  server: { summary: 'Show or stop the background server', load: () => import('./commands/server.ts') },
  doctor: {
    summary: 'Try what sandboxes need on this machine and say what is missing',
    load: () => import('./commands/doctor.ts'),
  },
  backup: {
    summary: 'Copy the state directory while everything is at rest, or bring a copy back',
    load: () => import('./commands/backup.ts'),
  },
  reset: {
    summary: 'Destroy everything and remove the state directory',
    load: () => import('./commands/reset.ts'),
  },
  version: { summary: 'Show versions', load: () => import('./commands/version.ts') },
}
