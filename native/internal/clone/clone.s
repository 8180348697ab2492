// The file lets the package declare functions whose bodies are elsewhere.
