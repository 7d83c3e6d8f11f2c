"""Small tables of a user: three pools, two judges, a tie, errors, a constant covariate."""

VERDICTS = """pool,judge,first,second,winner,count
p,a,x,y,first,1
p,a,y,x,tie,2
p,a,x,z,second,1
p,a,z,x,error,1
p,b,x,y,second,1
q,a,u,v,first,1
q,a,v,u,first,1
r,a,s,t,error,1
"""
ITEMS = """pool,item,words,lists
p,x,100,0
p,y,200,3
p,z,50,1
q,u,80,2
q,v,80,5
r,s,10,0
r,t,20,1
"""
