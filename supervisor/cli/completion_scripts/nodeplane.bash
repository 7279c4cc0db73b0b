# nodeplane, for bash: source <(nodeplane completion bash)
_nodeplane() {
    local cur=${COMP_WORDS[COMP_CWORD]} reply
    [[ $cur == [=:] ]] && cur=
    mapfile -t reply < <(nodeplane completion bash --words "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
    case ${reply[0]} in
        :files) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -f -- "$cur") ;;
        :dirs) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -d -- "$cur") ;;
        *) COMPREPLY=("${reply[@]}") ;;
    esac
}
complete -F _nodeplane nodeplane
