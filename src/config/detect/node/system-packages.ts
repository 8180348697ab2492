/** npm packages that need system programs or libraries, or downloads from other hosts. */
import { type PackageTable, packageTable } from '../project-files/debian-packages.ts'

const COMPILER = 'build-essential python3'
/** Libraries that a downloaded Chromium needs. */
const BROWSER =
  'libnss3 libnspr4 libatk1.0-0 libatk-bridge2.0-0 libcups2 libdrm2 libxkbcommon0 libxcomposite1 libxdamage1 libxfixes3 libxrandr2 libgbm1 libasound2 libpango-1.0-0 libcairo2 fonts-liberation'
/** What a program with windows needs without a screen. */
const WINDOW = `${BROWSER} libgtk-3-0 libnotify4 libxss1 libxtst6 xvfb xauth`

/**
 * By the name of the dependency. Packages with prebuilt binaries for common machines are not listed, such as
 * sharp and lightningcss.
 */
export const NODE_NATIVE: PackageTable = packageTable({
  '@discordjs/opus': COMPILER,
  '@journeyapps/sqlcipher': `${COMPILER} libssl-dev`,
  '@playwright/test': BROWSER,
  '@serialport/bindings': `${COMPILER} libudev-dev`,
  '@tensorflow/tfjs-node': COMPILER,
  argon2: COMPILER,
  bcrypt: COMPILER,
  'better-sqlite3': COMPILER,
  bignum: `${COMPILER} libssl-dev`,
  canvas: `libcairo2-dev libpango1.0-dev libjpeg-dev libgif-dev librsvg2-dev ${COMPILER} pkg-config`,
  couchbase: COMPILER,
  cypress: WINDOW,
  deasync: COMPILER,
  duckdb: COMPILER,
  electron: WINDOW,
  ffi: COMPILER,
  'ffi-napi': COMPILER,
  'fluent-ffmpeg': 'ffmpeg',
  gl: `${COMPILER} libxi-dev libglu1-mesa-dev libglew-dev pkg-config`,
  gm: 'graphicsmagick imagemagick',
  heapdump: COMPILER,
  hiredis: COMPILER,
  'i2c-bus': COMPILER,
  ibm_db: COMPILER,
  iconv: COMPILER,
  imagemagick: 'imagemagick',
  'isolated-vm': COMPILER,
  kerberos: `${COMPILER} libkrb5-dev`,
  keytar: `${COMPILER} libsecret-1-dev pkg-config`,
  libpq: `${COMPILER} libpq-dev`,
  libxmljs: COMPILER,
  libxmljs2: COMPILER,
  midi: `${COMPILER} libasound2-dev`,
  msnodesqlv8: `${COMPILER} unixodbc-dev`,
  'node-expat': COMPILER,
  'node-gyp': COMPILER,
  'node-hid': `${COMPILER} libudev-dev libusb-1.0-0-dev pkg-config`,
  'node-libcurl': `${COMPILER} libcurl4-openssl-dev pkg-config`,
  'node-poppler': 'poppler-utils',
  'node-pty': COMPILER,
  'node-rdkafka': `${COMPILER} libssl-dev libsasl2-dev zlib1g-dev`,
  'node-sass': COMPILER,
  'node-webcam': 'fswebcam',
  'node-zopfli': COMPILER,
  odbc: `${COMPILER} unixodbc-dev`,
  opencv4nodejs: `${COMPILER} cmake libopencv-dev`,
  oracledb: 'libaio1',
  pcap: `${COMPILER} libpcap-dev`,
  pdf2pic: 'graphicsmagick ghostscript',
  'pg-native': `${COMPILER} libpq-dev`,
  playwright: BROWSER,
  'playwright-chromium': BROWSER,
  posix: COMPILER,
  printer: `${COMPILER} libcups2-dev`,
  puppeteer: BROWSER,
  re2: COMPILER,
  'ref-napi': COMPILER,
  robotjs: `${COMPILER} libxtst-dev libpng-dev`,
  'segfault-handler': COMPILER,
  serialport: `${COMPILER} libudev-dev`,
  sodium: `${COMPILER} libtool autoconf automake`,
  speaker: `${COMPILER} libasound2-dev`,
  sqlite3: COMPILER,
  'tree-sitter': COMPILER,
  'unix-dgram': COMPILER,
  usb: `${COMPILER} libudev-dev`,
  zeromq: `${COMPILER} pkg-config cmake`,
})

/** For native modules that compile against Node. */
export const NODE_COMPILER = COMPILER

/** Packages that do not work without the result of their install script. */
export const NODE_BUILT: readonly string[] = [
  ...NODE_NATIVE.keys(),
  '@parcel/watcher',
  '@prisma/client',
  '@prisma/engines',
  '@sentry/cli',
  '@swc/core',
  'esbuild',
  'msgpackr-extract',
  'nx',
  'prisma',
  'protobufjs',
  'sharp',
  'unrs-resolver',
  'workerd',
]

export interface Download {
  /** Variables that switch the download off. */
  readonly variables: Readonly<Record<string, string>>
  readonly what: string
}

/**
 * Packages that download programs from hosts other than the registry. Without these variables, an install
 * that can only reach the registry fails.
 */
export const NODE_DOWNLOADS: ReadonlyMap<string, Download> = new Map([
  [
    'puppeteer',
    { variables: { PUPPETEER_SKIP_DOWNLOAD: '1', PUPPETEER_SKIP_CHROMIUM_DOWNLOAD: '1' }, what: 'a browser' },
  ],
  ['playwright', { variables: { PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD: '1' }, what: 'browsers' }],
  ['playwright-chromium', { variables: { PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD: '1' }, what: 'a browser' }],
  ['cypress', { variables: { CYPRESS_INSTALL_BINARY: '0' }, what: 'a program with a browser' }],
  ['electron', { variables: { ELECTRON_SKIP_BINARY_DOWNLOAD: '1' }, what: 'a program with a browser' }],
  ['chromedriver', { variables: { CHROMEDRIVER_SKIP_DOWNLOAD: 'true' }, what: 'a driver for a browser' }],
  ['geckodriver', { variables: { GECKODRIVER_SKIP_DOWNLOAD: 'true' }, what: 'a driver for a browser' }],
  ['@sentry/cli', { variables: { SENTRYCLI_SKIP_DOWNLOAD: '1' }, what: 'a program' }],
])
