/** A real Chromium without a window, driven through its debugging protocol. */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { until } from './world.ts'

const PROGRAM = ['chromium', 'chromium-browser', 'google-chrome']
  .map((name) => spawnSync('/bin/sh', ['-c', `command -v ${name}`], { encoding: 'utf8' }).stdout.trim())
  .find((path) => path !== '')

/** Why tests with a browser are skipped here; undefined if they can run. */
export const NO_BROWSER = PROGRAM === undefined ? 'this machine has no chromium' : undefined

const FLAGS = [
  ...['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run'],
  ...['--disable-background-networking', '--disable-component-update', '--disable-sync'],
  ...['--disable-dev-shm-usage', '--window-size=1280,800', '--remote-debugging-port=0'],
]

interface Answer {
  readonly id?: number
  readonly result?: Record<string, unknown>
  readonly error?: { readonly message: string }
}

export class Browser implements AsyncDisposable {
  readonly #child: ChildProcess
  readonly #directory: string
  #socket: WebSocket | undefined
  #next = 1
  readonly #waiting = new Map<number, (answer: Answer) => void>()

  private constructor(child: ChildProcess, directory: string) {
    this.#child = child
    this.#directory = directory
  }

  static async open(): Promise<Browser> {
    const directory = mkdtempSync(join(tmpdir(), 'agentpod-browser-'))
    const child = spawn(PROGRAM ?? '', [...FLAGS, `--user-data-dir=${directory}`, 'about:blank'], {
      stdio: 'ignore',
    })
    const browser = new Browser(child, directory)
    const file = join(directory, 'DevToolsActivePort')
    await until(
      'the browser listens',
      () => existsSync(file) && readFileSync(file, 'utf8').includes('\n'),
      60_000,
    )
    const port = readFileSync(file, 'utf8').split('\n')[0]
    let pages: { readonly type: string; readonly webSocketDebuggerUrl: string }[] = []
    await until(
      'it has a page',
      async () => {
        pages = (await (await fetch(`http://127.0.0.1:${port}/json/list`)).json()) as typeof pages
        return pages.some(({ type }) => type === 'page')
      },
      30_000,
    )
    await browser.#connect(pages.find(({ type }) => type === 'page')?.webSocketDebuggerUrl ?? '')
    return browser
  }

  async #connect(url: string): Promise<void> {
    const socket = new WebSocket(url)
    this.#socket = socket
    socket.addEventListener('message', ({ data }) => {
      const answer = JSON.parse(String(data)) as Answer
      const waiting = answer.id === undefined ? undefined : this.#waiting.get(answer.id)
      if (answer.id === undefined || !waiting) return
      this.#waiting.delete(answer.id)
      waiting(answer)
    })
    await new Promise((resolve, reject) => {
      socket.addEventListener('open', resolve, { once: true })
      socket.addEventListener('error', reject, { once: true })
    })
  }

  async #call(method: string, params: Record<string, unknown> = {}): Promise<Record<string, unknown>> {
    const id = this.#next++
    const answered = new Promise<Answer>((resolve) => this.#waiting.set(id, resolve))
    this.#socket?.send(JSON.stringify({ id, method, params }))
    const { result, error } = await answered
    if (error) throw new Error(`${method}: ${error.message}`)
    return result ?? {}
  }

  async goto(url: string): Promise<void> {
    await this.#call('Page.navigate', { url })
  }

  /** The value of an expression in the page; it may be a promise. Undefined while the page changes. */
  async evaluate(expression: string): Promise<unknown> {
    try {
      const { result } = await this.#call('Runtime.evaluate', {
        expression,
        awaitPromise: true,
        returnByValue: true,
      })
      return (result as { readonly value?: unknown }).value
    } catch {
      return undefined
    }
  }

  async screenshot(): Promise<Buffer> {
    const { data } = await this.#call('Page.captureScreenshot', { format: 'png' })
    return Buffer.from(String(data), 'base64')
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#socket?.close()
    const closed = new Promise((resolve) => this.#child.once('close', resolve))
    this.#child.kill('SIGKILL')
    await closed
    rmSync(this.#directory, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 })
  }
}
