#!/usr/bin/env python3
"""Makes field-shapes.tsv from the public Go types: which empty fields are left out of JSON, which are shown.

    field-shapes.py API_DIR APIMACHINERY_DIR APIEXTENSIONS_DIR AGGREGATOR_DIR RESOURCES_JSON > field-shapes.tsv
    field-shapes.py (API_DIR APIMACHINERY_DIR APIEXTENSIONS_DIR AGGREGATOR_DIR)... all > field-omissions.tsv

The second form lists, for every type of every version, the single values that are left out where empty; it takes several
versions of Kubernetes, of which a newer one adds to an older one. The directories are the sources of k8s.io/api,
k8s.io/apimachinery, k8s.io/apiextensions-apiserver and k8s.io/kube-aggregator, RESOURCES_JSON lists the kinds a server
serves (group, version, kind).
"""
import glob, json, re, sys

*folders, resources = sys.argv[1:]
S={};A={}
def read(api, machinery, extensions, aggregator):
    """Reads the types of one version."""
    S.clear(); A.clear()
    files=[f for f in glob.glob(api+'/*/*/types*.go')+glob.glob(extensions+'/pkg/apis/*/v1*/types*.go')+glob.glob(aggregator+'/pkg/apis/*/v1*/types*.go')+[machinery+'/pkg/apis/meta/v1/types.go'] if not re.search(r'_test|generated|swagger',f)]
    for f in files:
        p=f.split('/'); pkg='meta/v1' if f.startswith(machinery) else p[-3]+'/'+p[-2]
        src=open(f).read()
        imps={}
        for m in re.finditer(r'^(?:\t|import )(?:(\w+) )?"k8s\.io/(api|apimachinery)/([^"]+)"',src,re.M):
            path=m.group(3)
            tgt = 'meta/v1' if path=='pkg/apis/meta/v1' else (path if m.group(2)=='api' else path.split('/')[-1])
            imps[m.group(1) or path.split('/')[-1]]=tgt
        for m in re.finditer(r'^type (\w+) struct \{\n(.*?)^\}',src,re.S|re.M): S[pkg+'.'+m.group(1)]=(m.group(2),pkg,imps)
        for m in re.finditer(r'^type (\w+) ([\w\.\[\]\*]+)$',src,re.M): A[pkg+'.'+m.group(1)]=(m.group(2),pkg,imps)
SCALAR={'string':'s','int':'i','int32':'i','int64':'i','bool':'b','float64':'i','uint8':'i','uint16':'i','int8':'i','rune':'i'}
SPECIAL={'meta/v1.Time':'n','meta/v1.MicroTime':'n','meta/v1.Duration':'d','resource.Quantity':'q','intstr.IntOrString':'i','runtime.RawExtension':'n','meta/v1.FieldsV1':'n','types.UID':'s','runtime.Object':'n'}
def resolve(t,pkg,imps):
    """-> (container '', '[' or '{', zero, target)"""
    if t.startswith('[]byte'): return ('','s','')
    if t.startswith('[]'):
        c,z,g=resolve(t[2:].lstrip('*'),pkg,imps); return ('[','n',(g or ('quantity' if z=='q' else '')) if c=='' else '')
    if t.startswith('map['):
        c,z,g=resolve(t[t.index(']')+1:].lstrip('*'),pkg,imps); return ('{','n',(g or ('quantity' if z=='q' else '')) if c=='' else '')
    if t in SCALAR: return ('',SCALAR[t],'')
    if '.' in t: a,n=t.split('.'); q=imps.get(a,a)+'.'+n
    else: q=pkg+'.'+t
    # In JSON these are a schema, or something without fields.
    if re.search(r'\.JSONSchemaPropsOr\w+$',q): return ('','n',q[:q.index('Or')])
    if q in SPECIAL: return ('',SPECIAL[q],'')
    if q in S: return ('','o',q)
    if q in A: return resolve(*A[q])
    return ('','n','')
OUT={}
def fields(q,inlined=True):
    body,pkg,imps=S[q]; r={}
    for l in body.split('\n'):
        m=re.match(r'\t(?:(\w+)\s+)?([\w\.\[\]\*]+)\s+`[^`]*json:"([^"]*)"',l)
        if not m: continue
        name,t,tag=m.groups(); parts=tag.split(',')
        if name is None and (parts[0]=='' ):
            t=t.lstrip('*'); c,z,g=resolve(t,pkg,imps)
            if t.endswith('TypeMeta'): continue
            if g and inlined: r.update(fields(g))
            continue
        if parts[0] in ('','-'): continue
        ptr=t.startswith('*'); c,z,g=resolve(t.lstrip('*'),pkg,imps)
        empty='omitempty' in parts; zero='omitzero' in parts
        if ptr: how='k' if (empty or zero) else 'z'; z='n' if how=='z' else z
        elif zero: how='o'
        elif empty: how='o' if (c or z in 'sib') and not (t.lstrip('*') in ('intstr.IntOrString',)) else 'z'
        else: how='z'
        r[parts[0]]=how+z+(c or '.')+(g or '')
    return r
def visit(q):
    if q in OUT or q=='quantity': return
    OUT[q]=fields(q)
    for v in OUT[q].values():
        if v[3:]: visit(v[3:])
if resources=='all':
    omissions={}
    for version in zip(*[iter(folders)]*4):
        read(*version)
        for q in S:
            omitted=[name for name,how in fields(q,False).items() if how[0]=='o' and how[2]=='.']
            embedded=['.'+name for name in re.findall(r'^\t(?:\w+\.)?(\w+)\s+`json:"(?:,inline)?"',S[q][0],re.M) if name!='TypeMeta']
            omissions.setdefault(q,{}).update(dict.fromkeys(omitted+embedded))
    sys.stdout.write('# For each Go type of Kubernetes 1.36 and 1.37: the fields that are left out of JSON where they are empty, without lists and maps;\n# and with a dot, the embedded types whose fields JSON has in their place.\n')
    for q in sorted(omissions):
        if omissions[q]: sys.stdout.write('\t'.join([q,*omissions[q]])+'\n')
    sys.exit()
read(*folders)
roots=[]
for r in json.load(open(resources)):
    g=r['group']; pk={'':'core','internal.apiserver.k8s.io':'apiserverinternal'}.get(g,g.split('.')[0])
    q=f"{pk}/{r['version']}.{r['kind']}"
    if q in S: visit(q); roots.append((g,r['version'],r['kind'],q))
    else: print('no type', q, file=sys.stderr)
sys.stdout.write('# How fields look on the wire. A type, then its fields as name=HZC[type]: H is o (left out where empty), z (always shown) or k (shown where set);\n# Z what an empty one is: s "", i 0, b false, n null, q "0", d "0s", o {}; C is [ for lists, { for maps. From the public Go types of Kubernetes 1.36.\n')
for q in sorted(OUT): sys.stdout.write(q+''.join('\t'+k+'='+v for k,v in OUT[q].items())+'\n')
