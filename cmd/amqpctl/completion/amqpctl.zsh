#compdef amqpctl
# zsh completion of amqpctl: source <(amqpctl completion zsh), or a file _amqpctl in a directory of $fpath
_amqpctl() {
    local line
    local -a lines described
    lines=("${(@f)$(amqpctl __complete -- "${(@Q)words[2,CURRENT]}" 2>/dev/null)}")
    for line in $lines; do
        described+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
    done
    _describe -V amqpctl described || _files
}
if [[ ${funcstack[1]} == _amqpctl ]]; then
    _amqpctl "$@"
else
    compdef _amqpctl amqpctl
fi
