#compdef nodeplane
# nodeplane, for zsh, after compinit: source <(nodeplane completion zsh)
_nodeplane() {
    local -a found
    found=("${(@f)$(nodeplane completion zsh --words "${(@Q)words[2,CURRENT]}" 2>/dev/null)}")
    [[ $PREFIX == --*=* ]] && compset -P '*='
    case ${found[1]} in
        :files) _files ;;
        :dirs) _files -/ ;;
        ?*) _describe -t values nodeplane found ;;
    esac
}
if [[ ${funcstack[1]} == _nodeplane ]]; then _nodeplane "$@"; else compdef _nodeplane nodeplane; fi
