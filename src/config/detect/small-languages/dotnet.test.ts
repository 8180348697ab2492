import { describe } from 'node:test'
import { testDetector } from '../../testing/detector-table.ts'
import { detectDotnet } from './dotnet.ts'

const project = (framework: string, rest = '', sdk = 'Microsoft.NET.Sdk'): string =>
  `<Project Sdk="${sdk}">\n<PropertyGroup>\n<TargetFramework>${framework}</TargetFramework>\n</PropertyGroup>\n${rest}</Project>\n`
const TESTS = '<ItemGroup><PackageReference Include="Microsoft.NET.Test.Sdk" Version="17.0.0" /></ItemGroup>'

describe('.NET', () => {
  testDetector(detectDotnet, [
    { name: 'nothing is found where there is no .NET', files: { 'x.cs': '' }, finds: [] },
    {
      name: 'a solution is one finding with the projects that it names',
      files: {
        'Shop.sln':
          '\uFEFF\r\nProject("{1}") = "Shop", "src\\Shop\\Shop.csproj", "{2}"\r\nProject("{1}") = "Tests", "tests\\Tests\\Tests.csproj", "{3}"\r\nProject("{1}") = "Out", "..\\..\\Out.csproj", "{4}"\r\n',
        'src/Shop/Shop.csproj': project('net8.0', '', 'Microsoft.NET.Sdk.Web'),
        'src/Shop/Properties/launchSettings.json':
          '{"profiles":{"http":{"applicationUrl":"https://localhost:7001;http://localhost:5123"}}}',
        'tests/Tests/Tests.csproj': project('net8.0', TESTS),
        'extra/Extra.csproj': project('net9.0'),
        'global.json': '{\n"sdk": {\n"version": "8.0.204"\n} }',
        'Directory.Packages.props': '<Project />',
        '.editorconfig': '',
      },
      finds: [
        {
          language: 'dotnet',
          seen: 'Shop.sln',
          members: ['Shop', 'Tests'],
          versions: ['8.0.204 version file global.json:3', '8.0 manifest src/Shop/Shop.csproj:3'],
          inputs: [
            'Shop.sln',
            'src/Shop/Shop.csproj',
            'tests/Tests/Tests.csproj',
            'Directory.Packages.props',
            'global.json',
          ],
          setup: 'dotnet restore',
          build: 'dotnet build',
          test: 'dotnet test',
          lint: 'dotnet format --verify-no-changes',
          dev: 'dotnet run --project src/Shop/Shop.csproj',
          start: 'dotnet run -c Release --project src/Shop/Shop.csproj',
          ports: [5123],
          generated: ['src/Shop/obj', 'src/Shop/bin', 'tests/Tests/obj', 'tests/Tests/bin'],
          presets: [],
          notes: [/NuGet/],
        },
      ],
    },
    {
      name: 'projects that refer to each other in a circle end nowhere, and the others are found',
      files: {
        'app/App.fsproj': project(
          'net9.0',
          '<PropertyGroup><OutputType>Exe</OutputType></PropertyGroup><ItemGroup><ProjectReference Include="..\\lib\\Lib.csproj" /></ItemGroup>',
        ),
        'lib/Lib.csproj': project(
          'netstandard2.0',
          '<ItemGroup><ProjectReference Include="../app/App.fsproj" /></ItemGroup>',
        ),
        'lib/packages.lock.json': '{}',
        'alone/Alone.csproj': project('netcoreapp3.1'),
      },
      finds: [{ directory: 'alone', versions: ['3.1 manifest alone/Alone.csproj:3'], members: undefined }],
    },
    {
      name: 'references that go one way make one finding',
      files: {
        'app/App.csproj': project(
          'net9.0',
          '<PropertyGroup><OutputType>Exe</OutputType></PropertyGroup><ItemGroup><ProjectReference Include="..\\lib\\Lib.csproj" /></ItemGroup>',
        ),
        'lib/Lib.csproj': project('netstandard2.0'),
        'lib/packages.lock.json': '{}',
      },
      finds: [
        {
          directory: 'app',
          members: ['App', 'Lib'],
          setup: 'dotnet restore --locked-mode',
          dev: 'dotnet run --project App.csproj',
          inputs: ['app/App.csproj', 'lib/Lib.csproj', 'lib/packages.lock.json'],
        },
      ],
    },
    {
      name: 'frameworks may be several, shared, or of Windows',
      files: {
        'A.csproj':
          '<Project Sdk="x"><PropertyGroup><TargetFrameworks>net48;net8.0;net10.0-windows</TargetFrameworks></PropertyGroup></Project>',
      },
      finds: [
        { versions: ['10.0 manifest A.csproj:1', '8.0 manifest A.csproj:1'], notes: [/only on Windows/] },
      ],
    },
    {
      name: 'frameworks may stand in shared properties',
      files: {
        'src/A.csproj': '<Project Sdk="x"></Project>',
        'Directory.Build.props':
          '<Project>\n<PropertyGroup><TargetFramework>net8.0</TargetFramework></PropertyGroup></Project>',
      },
      finds: [{ directory: 'src', versions: ['8.0 manifest Directory.Build.props:2'] }],
    },
    {
      name: 'several solutions need a name',
      files: { 'A.sln': '', 'B.sln': '', 'x/X.csproj': project('net8.0') },
      finds: [{ setup: 'dotnet restore A.sln', notes: [/several solutions/] }],
    },
    {
      name: 'a malformed project is a note',
      files: { 'A.csproj': '<Project' },
      finds: [{ build: 'dotnet build', notes: [/A\.csproj is malformed/] }],
    },
  ])
})
