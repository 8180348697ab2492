import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { type PackageFile, readPackagePath } from './package-path.ts'

const SHA = 'ab'.repeat(32)
const HASH = `ab/cd/${'0123456789'.repeat(6)}`
const POOL = '/debian/pool/main/h/hello'
const CENTRAL = '/maven2/org/example/thing'

const NAMED: Readonly<Record<string, PackageFile['kind']>> = {
  '/left-pad/-/left-pad-1.3.0.tgz': 'npm',
  '/mirror/npm/left-pad/-/left-pad-1.3.0.tgz': 'npm',
  '/@scope/name/-/name-1.2.3.tgz': 'npm',
  '/%40scope/name/-/name-1.2.3.tgz': 'npm',
  '/@scope/name/-/@scope/name-1.2.3.tgz': 'npm',
  '/name/-/name-1.2.3-beta.4.tgz': 'npm',
  '/name/-/name-1.2.3+build.5.tgz': 'npm',
  '/name/-/name-1.2.3.tgz?cache=0': 'npm',
  [`/packages/${HASH}/requests-2.32.0-py3-none-any.whl`]: 'pypi',
  [`/packages/${HASH}/requests-2.32.0-py3-none-any.whl.metadata`]: 'pypi',
  [`/packages/${HASH}/requests-2.32.0.tar.gz`]: 'pypi',
  [`/packages/${HASH}/requests-2.32.0.zip`]: 'pypi',
  [`/packages/${HASH}/torch-2.4.0%2Bcpu-cp312-cp312-linux_x86_64.whl`]: 'pypi',
  [`/api/pypi/packages/packages/${HASH}/requests-2.32.0.tar.gz`]: 'pypi',
  [`/packages/${SHA}/requests-2.32.0.tar.gz`]: 'pypi',
  '/crates/serde/serde-1.0.200.crate': 'crate',
  '/crates/serde_json/serde_json-1.0.0-rc.1.crate': 'crate',
  '/api/v1/crates/serde/1.0.200/download': 'crate',
  '/crates/serde/1.0.200/download': 'crate',
  '/example.com/mod/@v/v1.2.3.zip': 'go',
  '/example.com/!big!name/@v/v1.2.3.mod': 'go',
  '/example.com/mod/v2/@v/v2.0.0.info': 'go',
  '/example.com/mod/@v/v2.0.0+incompatible.zip': 'go',
  '/example.com/mod/@v/v0.0.0-20240102030405-abcdef012345.info': 'go',
  '/goproxy/golang.org/toolchain/@v/v0.0.1-go1.22.0.linux-amd64.zip': 'go',
  [`${CENTRAL}/1.2.3/thing-1.2.3.jar`]: 'maven',
  [`${CENTRAL}/1.2.3/thing-1.2.3.pom`]: 'maven',
  [`${CENTRAL}/1.2.3/thing-1.2.3.module`]: 'maven',
  [`${CENTRAL}/1.2.3/thing-1.2.3.jar.sha1`]: 'maven',
  [`${CENTRAL}/1.2.3/thing-1.2.3.pom.sha256`]: 'maven',
  [`${CENTRAL}/1.2.3/thing-1.2.3-linux-x86_64.jar`]: 'maven',
  [`${CENTRAL}/2.0.Final/thing-2.0.Final.jar`]: 'maven',
  [`${POOL}/hello_2.10-3_amd64.deb`]: 'debian',
  [`${POOL}/hello_1%3a2.10-3%2bb1_amd64.deb`]: 'debian',
  [`${POOL}/libstdc%2b%2b6_12.2.0-14_all.deb`]: 'debian',
  [`${POOL}/hello_2.10~rc1_amd64.deb`]: 'debian',
  '/pool/hello_2.10_amd64.deb': 'debian',
  [`/debian/dists/stable/main/binary-amd64/by-hash/SHA256/${SHA}`]: 'debian',
}

const OTHER: readonly string[] = [
  '',
  '/',
  '*',
  'left-pad/-/left-pad-1.3.0.tgz',
  '/left-pad',
  '/left-pad/-/left-pad-latest.tgz',
  '/left-pad/-/left-pad-1.3.tgz',
  '/left-pad/-/other-1.3.0.tgz',
  '/left-pad/-/left-pad-1.3.0.tgz/',
  '/left-pad/-/left-pad-1.3.0.tar',
  '/left-pad/-/@scope/left-pad-1.3.0.tgz',
  '/left-pad/-/more/left-pad-1.3.0.tgz',
  '/-/left-pad-1.3.0.tgz',
  '/left-pad-1.3.0.tgz',
  '//left-pad/-/left-pad-1.3.0.tgz',
  '/left-pad//-/left-pad-1.3.0.tgz',
  '/x/../left-pad/-/left-pad-1.3.0.tgz',
  '/x/./left-pad/-/left-pad-1.3.0.tgz',
  '/x/%2e%2e/left-pad/-/left-pad-1.3.0.tgz',
  '/x/.%2E/left-pad/-/left-pad-1.3.0.tgz',
  '/x%2f..%2fleft-pad/-/left-pad-1.3.0.tgz',
  '/@scope%2fname/-/name-1.2.3.tgz',
  '/@scope%2Fname/-/name-1.2.3.tgz',
  '/x%5cy/left-pad/-/left-pad-1.3.0.tgz',
  '/x\\y/left-pad/-/left-pad-1.3.0.tgz',
  '/x%252e/left-pad/-/left-pad-1.3.0.tgz',
  '/x%00/left-pad/-/left-pad-1.3.0.tgz',
  '/x;y/left-pad/-/left-pad-1.3.0.tgz',
  '/left-pad/-/left-pad-1.3.0.tgz;x',
  '/left-pad/-/left-pad-1.3.0.tgz%20',
  '/left%2dpad/-/left%2dpad-1.3.0.tgz',
  '/left-pad/-/left-pad-1.3.0.tgz#x',
  '/left-pad/-/left-pad-1.3.0.tgz?a=%2e',
  '/left-pad/-/left-pad-1.3.0.tgz?token=abc',
  '/left-pad/-/left-pad-1.3.0.tgz?X-Amz-Signature=abc',
  '/left-pad/-/left-pad-1.3.0.tgz?a=b&Expires=17',
  '/left-pad/-/left-pad-1.3.0.tgz?sig=abc',
  `/${'x'.repeat(2100)}/left-pad/-/left-pad-1.3.0.tgz`,
  '/simple/requests/',
  '/packages/requests/2.32.0/requests-2.32.0.tar.gz',
  '/packages/source/r/requests/requests-2.32.0.tar.gz',
  '/packages/ab/cd/requests-2.32.0.tar.gz',
  `/packages/${HASH}/requests-2.32.0.exe`,
  `/packages/${HASH}/`,
  `/packages/${HASH}/x/requests-2.32.0.tar.gz`,
  `/${HASH}/requests-2.32.0.tar.gz`,
  '/crates/serde/serde-latest.crate',
  '/crates/serde/latest/download',
  '/crates/serde/1.0/download',
  '/serde/1.0.0/download',
  '/api/v1/crates/serde',
  '/example.com/mod/@v/list',
  '/example.com/mod/@latest',
  '/example.com/mod/@v/master.info',
  '/example.com/mod/@v/v1.info',
  '/example.com/mod/@v/v1.2.info',
  '/example.com/mod/@v/v1.2.3+other.zip',
  '/example.com/mod/@v/v1.2.3.ziphash',
  '/@v/v1.2.3.zip',
  '/example.com/mod/%40v/v1.2.3.zip',
  `${CENTRAL}/maven-metadata.xml`,
  `${CENTRAL}/1.2.3/maven-metadata.xml`,
  `${CENTRAL}/1.2.3-SNAPSHOT/thing-1.2.3-SNAPSHOT.jar`,
  `${CENTRAL}/1.2.3-snapshot/thing-1.2.3-snapshot.jar`,
  `${CENTRAL}/1.2.3%2dSNAPSHOT/thing-1.2.3%2dSNAPSHOT.jar`,
  `${CENTRAL}/1.2.3-SNAPSH%4fT/thing-1.2.3-SNAPSH%4fT.jar`,
  `${CENTRAL}/1.2.3/thing-1.2.3-SNAPSHOT.jar`,
  `${CENTRAL}/1.2.3/thing-1.2.4.jar`,
  `${CENTRAL}/1.2.3/other-1.2.3.jar`,
  `${CENTRAL}/latest/thing-latest.jar`,
  `${CENTRAL}/1.2.3/thing-1.2.3.jar.asc`,
  '/thing/1.2.3/thing-1.2.3.jar',
  '/debian/dists/stable/InRelease',
  '/debian/dists/stable/main/binary-amd64/Packages.xz',
  `/debian/dists/stable/main/binary-amd64/by-hash/MD5Sum/${'ab'.repeat(16)}`,
  '/debian/dists/stable/main/binary-amd64/by-hash/SHA256/abc',
  `/debian/by-hash/SHA256/${SHA}/x`,
  '/debian/hello_2.10-3_amd64.deb',
  `${POOL}/hello_current_amd64.deb`,
  `${POOL}/hello.deb`,
  `${POOL}/hello_2.10-3.deb`,
  `${POOL}/hello_2.10-3_amd64.deb.sig`,
  `${POOL}/../../hello_2.10-3_amd64.deb`,
]

describe('a path', () => {
  for (const [path, kind] of Object.entries(NAMED))
    test(`the path names a ${kind} package: ${path}`, () => assert.equal(readPackagePath(path)?.kind, kind))

  for (const path of OTHER)
    test(`the path names no package: ${path.slice(0, 80)}`, () =>
      assert.equal(readPackagePath(path), undefined))

  test('a by-hash path returns the hash', () => {
    assert.equal(readPackagePath(`/x/by-hash/SHA256/${SHA}`)?.sha256, SHA)
    assert.equal(readPackagePath(`${POOL}/hello_2.10-3_amd64.deb`)?.sha256, undefined)
  })

  test('hostile long paths are parsed quickly', () => {
    const long = [
      `/${'a-1'.repeat(650)}.crate`,
      `/packages/${HASH}/${'a.'.repeat(900)}`,
      `/x/@v/v1.2.3-${'a.'.repeat(900)}`,
      `/a/b/1/b-1-${'a.'.repeat(900)}`,
      `/x?${'key'.repeat(600)}%`,
      `/x?${'a&'.repeat(900)}`,
    ]
    for (const path of long) assert.equal(readPackagePath(path), undefined)
  })
})
