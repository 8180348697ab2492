# Registers the kernels of the code interpreter, as root, when its template is built.
set -eu
home=/opt/code-interpreter
kernels=$home/venv/share/jupyter/kernels
kernel() { # name, language, arguments as JSON
  mkdir -p "$kernels/$1"
  printf '{"argv": [%s], "display_name": "%s", "language": "%s", "interrupt_mode": "signal"}\n' "$3" "$1" "$2" > "$kernels/$1/kernel.json"
}
python="\"$home/venv/bin/python\""
kernel python3 python "$python, \"$home/python_kernel.py\", \"-f\", \"{connection_file}\""
kernel javascript javascript "$python, \"$home/javascript_kernel.py\", \"-f\", \"{connection_file}\""
kernel bash bash "$python, \"-m\", \"bash_kernel\", \"-f\", \"{connection_file}\""
if command -v R >/dev/null && R -q -e 'library(IRkernel)' >/dev/null 2>&1; then
  kernel ir R '"R", "--slave", "-e", "IRkernel::main()", "--args", "{connection_file}"'
fi
# Commands in a terminal use the same Python and its packages.
printf 'export PATH="%s/venv/bin:$PATH"\n' "$home" > /etc/profile.d/zz-code-interpreter.sh
chown -R user: "$home"
