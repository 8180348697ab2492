/** A file with every possible key. */
export const FULL = `[environment]
name = "my-project"
base = "fullstack"
suite = "trixie"
user = "user"
sudo = false

[environment.languages]
node = "22"
python = ">=3.12,<4"
go = "latest"
java = false
ruby = "none"

[environment.packages]
apt = ["libpq-dev", "g++", "curl=8.14.1-2"]
npm = ["typescript", "@biomejs/biome@2"]
pip = ["ruff", "httpx[http2]>=0.27,<1"]
cargo = ["just@1.40.0"]
go = ["golang.org/x/tools/gopls@latest"]
nix = ["ripgrep", "nixpkgs/nixos-24.11#jq", ".#default"]

[environment.variables]
NODE_ENV = "development"

[services]
postgres = { version = "15", port = 5432 }
redis = { enabled = true }
mysql = false
mongodb = { enabled = false, port = 27018 }
worker = { run = "npm run worker", ready = { port = 1234, timeout = "45s" }, workdir = "apps/worker", variables = { A = "b" }, stop = "SIGINT" }
mail = { run = "mailpit", ready = "curl -sf localhost:8025" }

[addons]
code-server = true
gui = { port = 6081 }

[ports]
3000 = { label = "Frontend", public = true }
8080 = {}

[lifecycle]
setup = { run = ["npm ci", "scripts/bootstrap.sh"], inputs = ["scripts/bootstrap.sh"] }
start = "npm run migrate"
dev = "npm run dev"
test = ["npm test", "npm run e2e"]
lint = false

[resources]
cpus = 1.5
memory = "8GB"
disk = "20GB"
pids = 2048
bandwidth = "2MB"
timeout = "1h"
idle = "15m"
step_timeout = "10m"

[volumes]
cache = "/home/user/.cache/pip"
data = { path = "/var/lib/app", read_only = true, size = "10GB" }

[network]
mode = "allowlist"
presets = ["npm", "pip"]
allow = ["api.example.com", { host = "files.example.com", methods = ["GET"], paths = ["/public/**"] }]
deny = ["tracker.example.com"]
intercept = "needed"

[secrets]
API_KEY = { hosts = ["api.example.com"], header = "authorization", required = true }

[agents]
default = "claude"
model = "large"
time = "30m"
max_cost = 2.5
branch = "agents/{slug}/{agent}-{n}"

[agents.permissions]
bash = { "*" = "allow", "git push*" = "deny" }
write = "allow"
mcp = "ask"
network = "deny"

[profiles.ci.resources]
memory = "2GB"

[profiles.ci.network]
presets = ["npm"]
allow = []

[profiles.ci.agents.permissions]
bash = "ask"
`
