"""The default cluster roles of users and programs, and whom they are bound to.

Upstream's of 1.36 with its default feature gates, and those for ResourceSlicePatches and DeviceTaintRules.
Rules of cluster-admin are in defaults.py. Parsed when they are written, at the first start.
"""

CLUSTER_ROLES = """
system:discovery
    get /healthz,/livez,/readyz,/version,/version/,/api,/api/*,/apis,/apis/*,/openapi,/openapi/*
system:public-info-viewer
    get /healthz,/livez,/readyz,/version,/version/
system:monitoring
    get /healthz,/healthz/*,/livez,/livez/*,/metrics,/metrics/slis,/readyz,/readyz/*
system:basic-user
    create authorization.k8s.io selfsubjectaccessreviews,selfsubjectrulesreviews
    create authentication.k8s.io selfsubjectreviews
system:auth-delegator
    create authentication.k8s.io tokenreviews
    create authorization.k8s.io subjectaccessreviews
system:service-account-issuer-discovery
    get /.well-known/openid-configuration,/.well-known/openid-configuration/,/openid/v1/jwks,/openid/v1/jwks/
system:kube-aggregator
    read core endpoints,services
system:kube-dns
    list,watch core endpoints,services
system:heapster
    read core events,namespaces,nodes,pods
    read extensions deployments
system:kubelet-api-admin
    read core nodes
    proxy core nodes
    * core nodes/log,nodes/metrics,nodes/proxy,nodes/stats
    * core nodes/configz,nodes/healthz,nodes/pods
system:node-bootstrapper
    create,read certificates.k8s.io certificatesigningrequests
system:node-problem-detector
    get core nodes
    patch core nodes/status
    events
system:node-proxier
    list,watch core endpoints,services
    read core nodes
    events
    list,watch networking.k8s.io servicecidrs
    list,watch discovery.k8s.io endpointslices
system:persistent-volume-provisioner
    create,delete,read core persistentvolumes
    read,update core persistentvolumeclaims
    read storage.k8s.io storageclasses
    watch core events
    events
system:certificates.k8s.io:certificatesigningrequests:nodeclient
    create certificates.k8s.io certificatesigningrequests/nodeclient
system:certificates.k8s.io:certificatesigningrequests:selfnodeclient
    create certificates.k8s.io certificatesigningrequests/selfnodeclient
system:certificates.k8s.io:kube-apiserver-client-approver
    approve certificates.k8s.io signers kubernetes.io/kube-apiserver-client
system:certificates.k8s.io:kube-apiserver-client-kubelet-approver
    approve certificates.k8s.io signers kubernetes.io/kube-apiserver-client-kubelet
system:certificates.k8s.io:kubelet-serving-approver
    approve certificates.k8s.io signers kubernetes.io/kubelet-serving
system:certificates.k8s.io:legacy-unknown-approver
    approve certificates.k8s.io signers kubernetes.io/legacy-unknown
system:kube-scheduler
    events
    create coordination.k8s.io leases
    get,update coordination.k8s.io leases kube-scheduler
    read core nodes
    delete,read core pods
    create core bindings,pods/binding
    patch,update core pods/status
    read core replicationcontrollers,services
    read apps,extensions replicasets
    read apps statefulsets
    read policy poddisruptionbudgets
    read core persistentvolumeclaims,persistentvolumes
    create authentication.k8s.io tokenreviews
    create authorization.k8s.io subjectaccessreviews
    read storage.k8s.io csinodes
    read storage.k8s.io volumeattachments
    read core namespaces
    read storage.k8s.io csidrivers
    read storage.k8s.io csistoragecapacities
    read resource.k8s.io deviceclasses
    read,patch,update resource.k8s.io resourceclaims
    read,patch,update resource.k8s.io resourceclaims/status
    patch,update resource.k8s.io resourceclaims/binding
    read,patch,update core pods/finalizers
    read resource.k8s.io resourceslices
    create,delete resource.k8s.io resourceclaims
    read resource.k8s.io devicetaintrules
    read resource.k8s.io resourceslicepatches
system:volume-scheduler
    read,patch,update core persistentvolumes
    read storage.k8s.io storageclasses
    read,patch,update core persistentvolumeclaims
system:kube-controller-manager
    events
    create coordination.k8s.io leases
    get,update coordination.k8s.io leases kube-controller-manager
    create core secrets,serviceaccounts
    delete core secrets
    get core configmaps,namespaces,secrets,serviceaccounts
    update core secrets,serviceaccounts
    create authentication.k8s.io tokenreviews
    create authorization.k8s.io subjectaccessreviews
    list,watch * *
    create core serviceaccounts/token
system:node
    create authentication.k8s.io tokenreviews
    create authorization.k8s.io localsubjectaccessreviews,subjectaccessreviews
    read core services
    create,read core nodes
    patch,update core nodes/status
    patch,update core nodes
    events
    read core pods
    create,delete core pods
    patch,update core pods/status
    create core pods/eviction
    read core configmaps,secrets
    get core persistentvolumeclaims,persistentvolumes
    get core endpoints
    create,read certificates.k8s.io certificatesigningrequests
    create,delete,get,patch,update coordination.k8s.io leases
    get storage.k8s.io volumeattachments
    create core serviceaccounts/token
    get,patch,update core persistentvolumeclaims/status
    read storage.k8s.io csidrivers
    create,delete,get,patch,update storage.k8s.io csinodes
    read node.k8s.io runtimeclasses
    get resource.k8s.io resourceclaims
    all resource.k8s.io resourceslices
    get core serviceaccounts
system:aggregate-to-view
    read core configmaps,endpoints,persistentvolumeclaims,persistentvolumeclaims/status,pods
    read core replicationcontrollers,replicationcontrollers/scale,serviceaccounts,services,services/status
    read core bindings,events,limitranges,namespaces/status,pods/log,pods/status
    read core replicationcontrollers/status,resourcequotas,resourcequotas/status
    read core namespaces
    read discovery.k8s.io endpointslices
    read apps controllerrevisions,daemonsets,daemonsets/status,deployments,deployments/scale,deployments/status
    read apps replicasets,replicasets/scale,replicasets/status,statefulsets,statefulsets/scale,statefulsets/status
    read autoscaling horizontalpodautoscalers,horizontalpodautoscalers/status
    read batch cronjobs,cronjobs/status,jobs,jobs/status
    read extensions daemonsets,daemonsets/status,deployments,deployments/scale,deployments/status,ingresses
    read extensions ingresses/status,networkpolicies,replicasets,replicasets/scale,replicasets/status
    read extensions replicationcontrollers/scale
    read policy poddisruptionbudgets,poddisruptionbudgets/status
    read networking.k8s.io ingresses,ingresses/status,networkpolicies
    read resource.k8s.io resourceclaims,resourceclaims/status,resourceclaimtemplates
system:aggregate-to-edit
    read core pods/attach,pods/exec,pods/portforward,pods/proxy,secrets,services/proxy
    impersonate core serviceaccounts
    write core pods,pods/attach,pods/exec,pods/portforward,pods/proxy
    create core pods/eviction
    write core configmaps,events,persistentvolumeclaims,replicationcontrollers,replicationcontrollers/scale
    write core secrets,serviceaccounts,services,services/proxy
    create core serviceaccounts/token
    write apps daemonsets,deployments,deployments/rollback,deployments/scale
    write apps replicasets,replicasets/scale,statefulsets,statefulsets/scale
    write autoscaling horizontalpodautoscalers
    write batch cronjobs,jobs
    write extensions daemonsets,deployments,deployments/rollback,deployments/scale,ingresses,networkpolicies
    write extensions replicasets,replicasets/scale,replicationcontrollers/scale
    write policy poddisruptionbudgets
    write networking.k8s.io ingresses,networkpolicies
    all coordination.k8s.io leases
    write resource.k8s.io resourceclaims,resourceclaimtemplates
system:aggregate-to-admin
    create authorization.k8s.io localsubjectaccessreviews
    all rbac.authorization.k8s.io rolebindings,roles
"""

SUBJECTS = {
    "cluster-admin": ("Group system:masters",),
    "system:discovery": ("Group system:authenticated",),
    "system:basic-user": ("Group system:authenticated",),
    "system:public-info-viewer": ("Group system:authenticated", "Group system:unauthenticated"),
    "system:monitoring": ("Group system:monitoring",),
    "system:service-account-issuer-discovery": ("Group system:serviceaccounts",),
    "system:kube-controller-manager": ("User system:kube-controller-manager",),
    "system:kube-dns": ("ServiceAccount kube-system/kube-dns",),
    "system:kube-scheduler": ("User system:kube-scheduler",),
    "system:volume-scheduler": ("User system:kube-scheduler",),
    "system:node-proxier": ("User system:kube-proxy",),
    "system:kubelet-api-admin": ("User kube-apiserver-kubelet-client",),
    "system:node": (),
}
"""Subjects by cluster role; a binding has the name of its role.

Upstream leaves system:kubelet-api-admin to installers; ours is bound to the user that the API server is for kubelets.
"""
